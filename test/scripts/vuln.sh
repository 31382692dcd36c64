#!/usr/bin/env bash
# Runs govulncheck if it can be had and its database can be reached; says so where not, and never pretends to have checked.
set -uo pipefail
cd "$(dirname "$0")/../.."

out=$(timeout 300 go run -mod=mod golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./... 2>&1)
status=$?
echo "$out" | tail -n 30
case $status in
	0) exit 0 ;;
	3) exit 1 ;; # vulnerabilities that the code reaches
esac
echo "vuln: NOT CHECKED: govulncheck could not be had, or could not reach its database, from this machine" >&2
exit 0
