#!/usr/bin/env bash
# What only a GPU can show, in less than 8 minutes; where there is none it says so and exits 0.
#
#   tests/gpu/run.sh                       builds with --config=cuda, then runs
#   tests/gpu/run.sh --pack FOLDER         builds, and gathers in FOLDER all that a machine without Bazel and Debian's libraries needs
#   tests/gpu/run.sh --packed FOLDER       runs what was packed
#
# It runs the tests of core/device and core/comm that skip elsewhere, then gpt and moe_gpt under single_device and zero3 in fp32 and
# bf16: each is trained and saved, resumed with losses and tensors bit-equal, loaded on the CPU and back with tensors bit-equal, and
# measured (a table: steps/s, rates of saves and loads, host memory that staging took and by how much the process grew). Last the
# command line: trained, stopped by SIGTERM, resumed, verified, sampled.
#
# Needed where it runs: an NVIDIA driver, python3, and LibTorch of the version that was built with, with its CUDA libraries
# ($SHARDWRIGHT_TORCH, else the active python's: third_party/torch/find_torch.py). To carry: this tree (tools, tests/gpu,
# third_party/torch) and the packed FOLDER, about 40 MiB. No network, no compiler.
#
# $SHARDWRIGHT_GPU_FOLDER: where checkpoints go meanwhile, 12 GiB at most (a new folder in $TMPDIR).
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/lib.sh"
cd "$project"

read -ra bazel <<<"${BAZEL:-bazel}"
targets=(//cli:shardwright //cli:shardwright_train //tests/gpu:device_check //tests/core/device:cuda_test //tests/core/comm:nccl_test
  //tests/conformance/comm:nccl_conformance_test)

usage() { sed -n '2,7s/^# \{0,1\}//p' "$0"; }

has_gpu() { compgen -G '/dev/nvidia[0-9]*' >/dev/null || nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

build() {
  stage "building with --config=cuda"
  quietly gpu-build "${bazel[@]}" build --config=cuda "${targets[@]}"
  bin=$("${bazel[@]}" info --config=cuda bazel-bin 2>/dev/null)
  stage_done
}

# The value of KEY in what find_torch.py prints.
torch_value() { python3 third_party/torch/find_torch.py | sed -n "s|^$1=||p"; }

# Libraries that every machine with a driver and LibTorch has are not packed.
pack() {
  local folder=$1 target file
  build
  mkdir -p "$folder/lib"
  for target in "${targets[@]}"; do
    file=${target#//}
    cp -f "$bin/${file/://}" "$folder/"
  done
  chmod u+w "$folder"/*
  for file in "$folder"/*; do
    [ ! -f "$file" ] || ldd "$file" | sed -nE 's|.*=> (/[^ ]+) .*|\1|p'
  done | sort -u | grep -vE '/(ld-linux|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)[-.]|libtorch|libc10|libcu|libnv|libnccl|libgomp' |
    xargs -r cp -fLt "$folder/lib"
  strip "$folder"/* "$folder"/lib/* 2>/dev/null || true
  torch_value version >"$folder/torch_version"
  say "packed $(du -sh "$folder" | cut -f1) in $folder; run there: tests/gpu/run.sh --packed $folder"
}

use_packed() {
  local wanted found
  bin=$(cd "$1" && pwd)
  wanted=$(cat "$bin/torch_version")
  found=$(torch_value version)
  [ "$wanted" = "$found" ] || die "packed for LibTorch $wanted, found ${found:-none}: set SHARDWRIGHT_TORCH to a package of that version"
  LD_LIBRARY_PATH=$bin/lib:$(torch_value root)/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
}

# program NAME: where it was built or packed.
program() {
  local target
  for target in "${targets[@]}"; do
    [ "${target##*:}" = "$1" ] || continue
    target=${target#//}
    if [ -x "$bin/${target/://}" ]; then echo "$bin/${target/://}"; else echo "$bin/$1"; fi
  done
}

run_tests() {
  local name
  for name in cuda_test nccl_test nccl_conformance_test; do
    stage "$name"
    timeout 120 "$(program "$name")" --gtest_brief=1 || failures+=("$name")
    stage_done
  done
}

run_trials() {
  stage "models and strategies on the device"
  timeout 330 "$(program device_check)" --device=cuda:0 --folder="$folder/trials" || failures+=("device_check")
  stage_done
}

# train MORE...: the command line's run on the device.
train() {
  "$(program shardwright)" train --data="$folder/text" --run_dir="$folder/run" --device=cuda --strategy=zero3 --precision=bf16 \
    --save_every_steps=0 --log_every_steps=20 "$@"
}

newest() { basename "$(readlink "$folder/run/last")"; }

# Trains until step 20 shows, stops, resumes.
run_command_line() {
  local stopped trainer status=0
  stage "the command line"
  python3 -c "print('\n'.join(f'{i} times {i} is {i * i}.' for i in range(3000)))" >"$folder/text"
  train --max_steps=100000 2>"$folder/log" &
  trainer=$!
  timeout 60 sh -c "until grep -q 'step 20/' '$folder/log'; do sleep 0.1; done" || true
  kill -TERM $trainer
  wait $trainer || status=$?
  cat "$folder/log"
  [ $status = 143 ] || die "a run that was stopped by SIGTERM exited with $status"
  stopped=$(newest)
  train --max_steps=$((10#${stopped#step-} + 20)) 2>&1 | tee "$folder/log"
  grep -q "resuming from $stopped" "$folder/log" || die "the run did not resume from $stopped"
  "$(program shardwright)" verify "$folder/run/last"
  "$(program shardwright)" sample "$folder/run" --device=cuda --prompt="12 times 12 is " --tokens=20
  stage_done
}

failures=()
bin=''
case "${1:-}" in
  --pack) [ $# = 2 ] || { usage; exit 2; }; pack "$2"; exit 0 ;;
  --packed) [ $# = 2 ] || { usage; exit 2; } ;;
  '') ;;
  *) usage; exit 2 ;;
esac
has_gpu || { say "skipped: this machine has no NVIDIA GPU"; exit 0; }

start=$EPOCHREALTIME
folder=${SHARDWRIGHT_GPU_FOLDER:-$(mktemp -d "${TMPDIR:-/tmp}/shardwright-gpu-XXXXXX")}
trap 'rm -rf "$folder/trials" "$folder/run" "$folder/text" "$folder/log"; rmdir "$folder" 2>/dev/null || true' EXIT
mkdir -p "$folder"
if [ "${1:-}" = --packed ]; then use_packed "$2"; else build; fi
run_tests
run_trials
run_command_line || failures+=("command line")
stage "all told"
say "   $(seconds_since "$start") s"
[ ${#failures[@]} = 0 ] || die "FAILED: ${failures[*]}"
say "all as it must be"
