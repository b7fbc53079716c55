#!/usr/bin/env bash
# gofumpt, go vet and staticcheck over all packages, go vet also for Windows and
# macOS; then the rules on imports and documents. Says all it finds, then fails
# if it found anything.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
unformatted=$(go tool -modfile=tools/go.mod gofumpt -l .) || failed=1
if [ -n "$unformatted" ]; then
	printf 'gofumpt would change (make fmt):\n%s\n' "$unformatted"
	failed=1
fi
go vet ./... || failed=1
go -C tools vet ./... || failed=1
# vet compiles everything but does not link it. SQLite, a million lines of
# translated C, is compiled without optimization here, which takes half the time.
for system in windows darwin; do
	GOOS=$system CGO_ENABLED=0 go vet -gcflags='modernc.org/...=-N -l' ./... || failed=1
done
go tool -modfile=tools/go.mod staticcheck ./... || failed=1
go test -count=1 -vet=off ./internal/archtest || failed=1
exit $failed
