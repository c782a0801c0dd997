# shellcheck shell=bash
# Shared by the scripts of this folder: stages with their times, and commands whose log is shown only when they fail.

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
logs=${SHARDWRIGHT_LOGS:-$project/.cache/logs}
mkdir -p "$logs"

# seconds_since T0: with one decimal; T0 as $EPOCHREALTIME printed it.
seconds_since() {
  local now=${EPOCHREALTIME/[.,]/} then=${1/[.,]/}
  local tenths=$(((now - then + 50000) / 100000))
  echo "$((tenths / 10)).$((tenths % 10))"
}

say() { printf '%s\n' "$*"; }

die() {
  printf '%s\n' "$*" >&2
  exit 1
}

# stage TITLE: announces what happens next.
stage() {
  stage_start=$EPOCHREALTIME
  printf '\n== %s\n' "$1"
}

# How long the stage took.
stage_done() { printf '   %s s\n' "$(seconds_since "$stage_start")"; }

# quietly LOG COMMAND...: output goes to the log; on failure its end is shown and the status returned.
quietly() {
  local log=$logs/$1.log status=0
  shift
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ $status -ne 0 ]; then
    { tail -n 30 "$log"; echo "failed with status $status: $* (all of its output: $log)"; } >&2
  fi
  return $status
}
