#!/usr/bin/env bash
# Runs every fuzz target for a while, one after the other: FUZZ is how long
# each, like 10s. What one finds is kept under testdata/fuzz of its package, and
# runs with the tests from then on.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
while IFS=: read -r file target; do
	dir=$(dirname "$file") # of any module
	echo "== $dir $target"
	go test -C "$dir" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZ:-10s}" </dev/null || failed=1
done < <(grep -rhoE --include='*_test.go' -H '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's#^\./##; s/func //' | sort)
exit "$failed"
