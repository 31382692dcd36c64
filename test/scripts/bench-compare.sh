#!/usr/bin/env bash
# Compares the benchmarks of the hot paths with those of another version: the argument, or the last release tag.
# Fails where a time rose by more than 10 % and benchstat finds the change significant.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages="evidence gate gate/challenge policy proxy proxy/intercept proxy/upstream ledger trigger signer internal/wire"
ref=${1:-$(git describe --tags --abbrev=0 2>/dev/null)} || {
	echo "bench-compare: there is no release tag; name a version, as in make bench-compare REF=origin/main" >&2
	exit 2
}
go=${GO:-go}
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/tree"; rm -rf "$dir"' EXIT
git worktree add --quiet --detach "$dir/tree" "$ref"
"$go" build -C tools -o "$dir/benchstat" golang.org/x/perf/cmd/benchstat

for p in $packages; do
	name=${p//\//-}
	"$go" test -c -o "$dir/now-$name" "./$p"
	(cd "$dir/tree" && "$go" test -c -o "$dir/before-$name" "./$p")
done
for round in 1 2 3 4 5 6; do # fewer rounds find nothing significant
	for p in $packages; do
		for tree in before now; do
			at=$PWD/$p
			[ "$tree" = now ] || at=$dir/tree/$p
			(cd "$at" && "$dir/$tree-${p//\//-}" -test.run='^$' -test.bench=. -test.benchtime=200ms -test.timeout=10m) >>"$dir/$tree.txt"
		done
	done
	echo "round $round of 6" >&2
done
"$dir/benchstat" "$ref=$dir/before.txt" "now=$dir/now.txt"
"$dir/benchstat" -format csv -filter '.unit:sec/op' "$ref=$dir/before.txt" "now=$dir/now.txt" 2>/dev/null |
	awk -F, '$1 != "geomean" && $6 ~ /^\+/ && $6 + 0 > 10 { print "slower: " $1, $6, $7; slow = 1 } END { exit slow }'
