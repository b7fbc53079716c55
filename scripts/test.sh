#!/usr/bin/env bash
# All of `make test`. It goes on after a failure, to show everything at once,
# and fails at the end. The last line counts the tests.
#
#   SERVERS         what the tests may not skip, for instance "redis postgres"
#   RACE_FLAGS      what go test needs for the race detector
#   FIRST_PKGS      packages that run under it before all others: their tests fail where a
#                   busy machine makes servers and databases miss the product's deadlines
#   RACE_PKGS       packages that run under it, but for ALONE_PKGS, where one goroutine does all
#   PKGS            packages that run without it: those that run under it are left out, and the
#                   rules on imports and documents, which the linter runs
#   TEST_PKGS       packages of the module test, which run without it
#   LAB_RACE_PKGS   packages of the module lab that run under it; its others run without
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
top=$PWD

# Go keeps its caches under HOME, which CI does not always set.
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
if ! command -v go >/dev/null && [ -x /usr/local/go/bin/go ]; then
	PATH=$PATH:/usr/local/go/bin
fi

read -ra servers <<<"${SERVERS:?}"
read -ra race_flags <<<"${RACE_FLAGS:?}"
read -ra first_pkgs <<<"${FIRST_PKGS:?}"
read -ra test_pkgs <<<"${TEST_PKGS:?}"
read -ra lab_race_pkgs <<<"${LAB_RACE_PKGS:?}"
# go list keeps the order.
mapfile -t race_pkgs < <(go list -e ${RACE_PKGS:?} | grep -vxFf <(go list -e $ALONE_PKGS))
mapfile -t pkgs < <(go list -e $PKGS | grep -vxFf <(go list -e $FIRST_PKGS; printf '%s\n' "${race_pkgs[@]}") | grep -v /internal/archtest$)
mapfile -t lab_pkgs < <(go -C lab list -e ./... | grep -vxFf <(go -C lab list -e $LAB_RACE_PKGS))

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# step NAME COMMAND...: what the command prints, and how long it takes.
step() {
	local name=$1 start=$SECONDS code=0
	shift
	echo "== $name"
	"$@" </dev/null || code=$?
	echo "== $name: $((SECONDS - start)) s"
	return $code
}

# beside NAME COMMAND...: a step beside those that follow. Its output is shown at
# the end.
beside() {
	(
		trap - INT # which bash ignores in the background: the terminal's is for all
		step "$@"
	) >"$work/$1.out" 2>&1 &
	pids+=($!) names+=("$1")
}

# tests MODULE FILE WIDE FLAGS...: go test in a module's folder, with a line for each
# package, and its events in FILE. Most of a test is waiting for processes, deadlines and
# leases, so more of them than there are cores run at a time: WIDE for each core. Not many
# more: tests have deadlines, and two such steps may run side by side. Without its vet: the
# linter runs all of vet.
tests() {
	local module=$1 file=$2 wide=$3
	shift 3
	go tool -C "$module" -modfile="$top/tools/go.mod" gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary skipped \
		--jsonfile-timing-events "$work/$file" -- -count=1 -timeout 45m -vet=off -p 1 -parallel "$((wide * $(nproc)))" "$@"
}

# plain runs what runs without the race detector, but for the lab's, which follow the tests
# with it: the two lanes are about as long. What takes longest comes first.
plain() {
	local code=0
	tests test test.json 2 "${test_pkgs[@]}" || code=1
	tests . all.json 2 "${pkgs[@]}" || code=1
	return $code
}

# race runs what shares memory under the detector. In many of its packages one test runs after
# the other, so two packages run at a time.
race() {
	local code=0
	tests . race.json 1 -p 2 "${race_flags[@]}" "${race_pkgs[@]}" || code=1
	tests lab lab-race.json 1 -p 2 "${race_flags[@]}" "${lab_race_pkgs[@]}" || code=1
	return $code
}

# compiled compiles what the steps after the first will run, and says nothing: they say it.
compiled() {
	local test=(test -exec true -vet=off -p 1)
	CGO_ENABLED=1 go "${test[@]}" "${race_flags[@]}" "${race_pkgs[@]}"
	go "${test[@]}" "${pkgs[@]}"
	go -C test "${test[@]}" "${test_pkgs[@]}"
	go -C lab "${test[@]}" "${lab_pkgs[@]}"
} >/dev/null 2>&1

# low runs a command with what others leave of the processors.
low() {
	renice -n 19 $BASHPID >/dev/null
	"$@"
}

failed=() pids=() names=()
step install scripts/install.sh "${servers[@]}" || failed+=(install)
export SLUICE_TEST_REQUIRE="${servers[*]}"
SLUICE_TEST_REQUIRE=${SLUICE_TEST_REQUIRE// /,}
# A few tests fill a disk of their own. Where mounting one is allowed, none of them may be skipped.
if mount -t tmpfs tmpfs "$work" 2>/dev/null; then
	umount "$work"
	SLUICE_TEST_REQUIRE+=,mount
fi

# Side by side the steps below would each compile it for itself.
go tool -modfile=tools/go.mod gotestsum --version >/dev/null || failed+=(gotestsum)

# These compute where the tests wait.
beside lint low scripts/lint.sh
low compiled &
CGO_ENABLED=1 step "first tests with -race" tests . first.json 3 "${race_flags[@]}" "${first_pkgs[@]}" ||
	failed+=("first tests with -race")
beside tests plain
CGO_ENABLED=1 step "tests with -race" race || failed+=("tests with -race")
step "tests of the lab" tests lab lab.json 2 "${lab_pkgs[@]}" || failed+=("tests of the lab")
for i in "${!pids[@]}"; do
	wait "${pids[i]}" || failed+=("${names[i]}")
	cat "$work/${names[i]}.out"
done

if [ ${#failed[@]} -gt 0 ]; then
	printf 'FAILED: %s\n' "${failed[@]}"
fi
# Also prints what it counts when a package did not even build.
go -C tools run ./testcount "$work"/*.json || failed+=(count)
[ ${#failed[@]} -eq 0 ]
