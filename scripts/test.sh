#!/usr/bin/env bash
# All of `make test`. It goes on after a failure, to show everything at once,
# and fails at the end. The last line counts the tests.
#
#   SERVERS    what the tests may not skip, for instance "redis postgres"
#   PKGS       packages to test, in this order
#   RACE_PKGS  those to test again under the race detector, in this order
#   RACE_FLAGS what go test needs for that
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Go keeps its caches under HOME, which CI does not always set.
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
if ! command -v go >/dev/null && [ -x /usr/local/go/bin/go ]; then
	PATH=$PATH:/usr/local/go/bin
fi

read -ra servers <<<"${SERVERS:?}"
read -ra pkgs <<<"${PKGS:?}"
read -ra race_pkgs <<<"${RACE_PKGS:?}"
read -ra race_flags <<<"${RACE_FLAGS:?}"

events=$(mktemp -d)
trap 'rm -rf "$events"' EXIT

failed=()
step() {
	local name=$1 start=$SECONDS
	shift
	echo "== $name"
	"$@" </dev/null || failed+=("$name")
	echo "== $name: $((SECONDS - start)) s"
}

# tests FILE FLAGS...: go test with a line for each package, and its events in
# FILE. Without its vet: the linter has run all of vet. Tests wait for servers,
# disks and deadlines, so one package more than there are cores is run at a time.
tests() {
	local file=$1
	shift
	go tool -modfile=tools/go.mod gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary skipped \
		--jsonfile-timing-events "$events/$file" -- -count=1 -timeout 9m -vet=off -p $(($(nproc) + 1)) "$@"
}

step install scripts/install.sh "${servers[@]}" gcc
export SLUICE_TEST_REQUIRE="${servers[*]}"
SLUICE_TEST_REQUIRE=${SLUICE_TEST_REQUIRE// /,}
# A few tests fill a disk of their own. Where mounting one is allowed, none of them may be skipped.
if mount -t tmpfs tmpfs "$events" 2>/dev/null; then
	umount "$events"
	SLUICE_TEST_REQUIRE+=,mount
fi

step lint scripts/lint.sh
CGO_ENABLED=1 step "tests with -race" tests race.json "${race_flags[@]}" "${race_pkgs[@]}"
step tests tests all.json "${pkgs[@]}"

if [ ${#failed[@]} -gt 0 ]; then
	printf 'FAILED: %s\n' "${failed[@]}"
fi
# Also prints what it counts when a package did not even build.
go -C tools run ./testcount "$events"/*.json || failed+=(count)
[ ${#failed[@]} -eq 0 ]
