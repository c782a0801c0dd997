#!/usr/bin/env bash
# Formats C++ with the project's .clang-format.
#
#   tools/format.sh            rewrites what is not formatted
#   tools/format.sh --check    names it instead, with what would change; exit status 1
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(find core strategies callbacks cli python_bindings tests -name '*.h' -o -name '*.cc' -o -name '*.cu' 2>/dev/null | sort)
case "${1:-}" in
  '') exec clang-format -i "${files[@]}" ;;
  --check) ;;
  *) echo "$0: unknown option $1, expected --check or nothing" >&2; exit 2 ;;
esac

# One process for all; only for what it names is the difference made, which says what to do.
mapfile -t bad < <(clang-format --dry-run "${files[@]}" 2>&1 | sed -nE 's/^([^:]+):[0-9]+:[0-9]+: warning: .*/\1/p' | sort -u)
for file in "${bad[@]}"; do
  clang-format "$file" | diff -u --label "$file" --label "$file formatted" "$file" - | head -n 20
done
[ ${#bad[@]} = 0 ] || { echo "${#bad[@]} of ${#files[@]} files are not formatted: run tools/format.sh"; exit 1; }
