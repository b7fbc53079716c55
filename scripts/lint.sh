#!/usr/bin/env bash
# gofumpt, go vet and staticcheck over the packages of all modules, vet for Linux,
# Windows and macOS; then the workflows, the document of the API, and the rules on imports and
# documents. Says all it finds, then fails if it found anything.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
unformatted=$(go tool -modfile=tools/go.mod gofumpt -l .) || failed=1
if [ -n "$unformatted" ]; then
	printf 'gofumpt would change (make fmt):\n%s\n' "$unformatted"
	failed=1
fi
go -C tools vet ./... || failed=1
for module in .. ../lab ../test; do
	go -C tools run ./linter "$module" linux windows darwin || failed=1
done
go vet -tags noconsole ./engine || failed=1
go tool -modfile=tools/go.mod actionlint || failed=1 # .github/workflows
# The document of the HTTP API, with the packages of tools/apilint.
if scripts/install.sh node npm; then
	packages=$(mktemp -d)
	trap 'rm -rf "$packages"' EXIT
	cp tools/apilint/* "$packages"
	{ npm ci --prefix "$packages" --silent --no-audit --no-fund && node "$packages/lint.mjs" internal/httpapi/openapi.json; } || failed=1
else
	failed=1
fi
go test -count=1 -vet=off ./internal/archtest || failed=1
exit $failed
