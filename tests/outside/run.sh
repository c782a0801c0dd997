#!/usr/bin/env bash
# Builds and runs workspaces that depend on @shardwright as an outside project would.
#
#   tests/outside/run.sh reader      reads a checkpoint; must build where no LibTorch is found
#   tests/outside/run.sh visibility  levels inside the project are refused
#   tests/outside/run.sh trainer     trains its own model with its own callback, with two processes
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build WORKSPACE: prints where its program is. Each workspace has its own Bazel server, which is not left running.
build() {
  cd "$here/$1"
  bazel build --symlink_prefix=/ "//:$1" >&2
  echo "$(bazel info bazel-bin 2>/dev/null)/$1"
  bazel shutdown >&2
}

golden() { find "$here/../golden" -name manifest.pb -print | sort | head -n 1 | xargs -r dirname; }

run_reader() {
  # A torch that cannot be found: the build must not ask for it.
  local program checkpoint
  program=$(SHARDWRIGHT_TORCH=/nowhere build reader)
  checkpoint=$(golden)
  [ -n "$checkpoint" ] || { echo "no golden checkpoint under tests/golden" >&2; return 1; }
  "$program" "$checkpoint" | tee "$work/reader.out"
  grep -q '^first row of ' "$work/reader.out"
  if ldd "$program" | grep -i torch; then
    echo "the reader links torch" >&2
    return 1
  fi
}

run_visibility() {
  local output
  cd "$here/reader"
  if output=$(bazel build --symlink_prefix=/ --nobuild //:reaches_inside 2>&1); then
    echo "an outside workspace may depend on @shardwright//core/base" >&2
    return 1
  fi
  grep "target '@shardwright//core/base:status_macros' is not visible" <<<"$output" || { printf '%s\n' "$output" >&2 && return 1; }
}

run_trainer() {
  local program run=$work/run step
  program=$(build trainer)
  for i in $(seq 500); do echo "the $i ranks of a node take turns at line $((i * 7 % 31))"; done >"$work/text"
  "$program" train --model=bigram --data="$work/text" --strategy=ddp --nproc_per_node=2 --run_dir="$run" --max_steps=500 \
    --callbacks=model_checkpoint,progress,stop_below --save_every_steps=0
  # The callback saved under its own name and stopped the run long before its end.
  step=$("$program" inspect --json "$run/good" | python3 -c 'import json, sys; print(json.load(sys.stdin)["progress"]["step"])')
  [ "$step" -lt 500 ] || { echo "the run went on to step $step: the callback did not stop it" >&2; return 1; }
  [ "$run/good" -ef "$run/last" ] || { echo "the callback's link is not on the newest checkpoint" >&2; return 1; }
  "$program" verify "$run/good"
}

case "${1:-}" in
  reader | visibility | trainer) "run_$1" ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
