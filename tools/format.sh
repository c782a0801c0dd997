#!/usr/bin/env bash
# Formats C++ with the project's .clang-format.
#
#   tools/format.sh            rewrites what is not formatted
#   tools/format.sh --check    names it instead, with what would change; exit status 1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(find core strategies callbacks cli python_bindings tests -name '*.h' -o -name '*.cc' -o -name '*.cu' 2>/dev/null | sort)
case "${1:-}" in
  '') exec clang-format -i "${files[@]}" ;;
  --check) ;;
  *) echo "$0: unknown option $1, expected --check or nothing" >&2; exit 2 ;;
esac

bad=0
for file in "${files[@]}"; do
  # --dry-run would name places only; the difference says what to do.
  if ! difference=$(clang-format "$file" | diff -u --label "$file" --label "$file formatted" "$file" -); then
    printf '%s\n' "$difference" | head -n 20
    bad=$((bad + 1))
  fi
done
[ $bad = 0 ] || { echo "$bad of ${#files[@]} files are not formatted: run tools/format.sh"; exit 1; }
