#!/usr/bin/env bash
# The quickstart, as a newcomer runs it: it checks itself; what is left to check is that a second run leaves the first alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mkdir -p runs
before=$(find runs -maxdepth 1 -name 'quickstart*' | wc -l)
output=$(tools/quickstart.sh)
printf '%s\n' "$output"
grep -q '^   loss: ' <<<"$output"
after=$(find runs -maxdepth 1 -name 'quickstart*' | wc -l)
[ "$after" = $((before + 1)) ] || { echo "found $after runs, expected $((before + 1))" >&2; exit 1; }
# Test runs do not pile up.
rm -rf "$(sed -nE 's/.*--run_dir=(runs\/quickstart[^ ]*).*/\1/p' <<<"$output" | head -n 1)"
