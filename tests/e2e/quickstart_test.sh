#!/usr/bin/env bash
# The quickstart, as a newcomer runs it: it checks itself; what is left to check is that it takes a run of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

runs() { find runs -maxdepth 1 -name 'quickstart*' | sort; }

mkdir -p runs
before=$(runs)
tools/quickstart.sh
new=$(comm -13 <(printf '%s\n' "$before") <(runs))
# More than one name is no folder either.
[ -d "$new/last" ] || { echo "new runs are \"$new\", expected one" >&2; exit 1; }
# Test runs do not pile up.
rm -rf "$new"
