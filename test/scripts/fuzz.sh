#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME, one after the other. Not to spend that on making long inputs shorter, it tries once.
set -euo pipefail
cd "$(dirname "$0")/../.."

grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do
	grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | awk '{print $2}' | sort -u | while read -r target; do
		echo "== $dir $target"
		go test "$dir" -run='^$' -fuzz="^$target\$" -fuzztime="${FUZZTIME:-30s}" -fuzzminimizetime=1x
	done
done
