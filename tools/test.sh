#!/usr/bin/env bash
# Sets up what tests need, then runs every check and test. The last line is "N passed, N failed[, N skipped]" with the true
# number of test cases; the exit status is 1 if one failed.
#
#   tools/test.sh                  everything
#   tools/test.sh STAGE...         some of: checks tests asan tsan outside cuda e2e
#
# BAZEL="bazel --output_base=..." chooses another Bazel command.
set -uo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$project" || exit 1

read -ra bazel <<<"${BAZEL:-bazel}"
all_stages=(checks tests asan tsan outside cuda e2e)
passed=0 failed=0 skipped=0
failures=()

# check NAME COMMAND...: one named check; its output is shown only if it fails.
check() {
  local name=$1 log=$logs/check-${1//[^a-zA-Z0-9]/-}.log start=$EPOCHREALTIME
  shift
  if "$@" >"$log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    printf '   ok      %s (%s s)\n' "$name" "$(seconds_since "$start")"
  else
    failed=$((failed + 1))
    failures+=("$name")
    tail -n 100 "$log"
    printf '   FAILED  %s (%s s), all of its output: %s\n' "$name" "$(seconds_since "$start")" "$log"
  fi
}

# count NAME MODE ARGUMENT: adds the cases that tools/count_tests.py counts.
count() {
  local name=$1 counts p f s
  counts=$(tools/count_tests.py "$2" "$3" 2>"$logs/count-$name.log")
  grep -E '^(FAILED|skipped) ' "$logs/count-$name.log" | sed 's/^/   /'
  read -r p f s <<<"$counts"
  if [ -z "${s:-}" ]; then
    cat "$logs/count-$name.log"
    p=0 f=1 s=0
  fi
  if [ "$f" != 0 ] && [ "$2" = unittest ]; then cat "$logs/count-$name.log"; fi
  printf '   %s: %s passed, %s failed, %s skipped\n' "$name" "$p" "$f" "$s"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  [ "$f" = 0 ] || failures+=("$name: $f")
}

# bazel_tests NAME ARGUMENT...: what failed is shown by Bazel.
bazel_tests() {
  local name=$1 events=$logs/$1-events.json log=$logs/$1.log
  shift
  rm -f "$events"
  "${bazel[@]}" test --keep_going --build_event_json_file="$events" "$@" >"$log" 2>&1 </dev/null ||
    grep -vE '^(INFO|Loading|Analyzing|\[[0-9,]+ / )' "$log" | tail -n 400
  count "$name" bazel "$events"
}

scripts() { find tools tests .ci -name '*.sh' -o -path .ci/run; }

run_checks() {
  stage "checks: scripts, format, layers, clang-tidy, the tools' own tests"
  # shellcheck disable=SC2046
  check "shellcheck" shellcheck -x $(scripts)
  check "clang-format" tools/format.sh --check
  check "layers and BUILD files" tools/check_layers.py
  check "clang-tidy" tools/clang_tidy.py
  count tools unittest tests/tools
}

run_tests() {
  stage "bazel test //... (the first build takes minutes)"
  bazel_tests tests //...
}

# planted CONFIG PROGRAM WORDS: the sanitizer must end the program, saying these words.
planted() {
  local program=//tests/sanitizers:$2 output
  "${bazel[@]}" build --config="$1" "$program" || return 1
  if output=$("${bazel[@]}" run --config="$1" "$program" 2>&1); then
    echo "$2 ended well under $1: the sanitizer is blind"
    return 1
  fi
  grep -F "$3" <<<"$output" || { printf '%s\n' "$output" && return 1; }
}

run_asan() {
  stage "torch-free tests under AddressSanitizer and UndefinedBehaviorSanitizer"
  check "AddressSanitizer finds a planted use after free" planted asan planted_use_after_free heap-use-after-free
  check "UndefinedBehaviorSanitizer finds a planted overflow" planted asan planted_overflow "signed integer overflow"
  bazel_tests asan --config=asan --build_tests_only //...
}

# Where threads meet; the other tests have nothing that ThreadSanitizer could find.
threaded_tests() {
  "${bazel[@]}" query --noshow_progress 'attr(tags, "\bthreads\b", tests(//tests/...)) except attr(tags, "\btorch\b", tests(//tests/...))' 2>"$logs/query.log"
}

run_tsan() {
  stage "tests with threads under ThreadSanitizer"
  check "ThreadSanitizer finds a planted race" planted tsan planted_race "data race"
  check "ThreadSanitizer understands absl::Mutex" "${bazel[@]}" run --config=tsan //tests/sanitizers:planted_race guarded
  local targets
  mapfile -t targets < <(threaded_tests)
  bazel_tests tsan --config=tsan --build_tests_only "${targets[@]:-//:no_test_has_the_tag_threads}"
}

run_outside() {
  stage "outside workspaces that depend on @shardwright"
  check "outside workspace: reader" tests/outside/run.sh reader
  check "outside workspace: visibility" tests/outside/run.sh visibility
  check "outside workspace: trainer" tests/outside/run.sh trainer
}

# What machines with GPUs run, as far as it can be built without one; the next stage builds the plain programs again.
run_cuda() {
  local toolkit=${SHARDWRIGHT_CUDA:-/usr/local/cuda}
  if [ ! -e "$toolkit/include/nccl.h" ]; then
    stage "CUDA and NCCL: skipped, no toolkit with NCCL in $toolkit"
    skipped=$((skipped + 1))
    return
  fi
  stage "CUDA and NCCL: the programs link; device tests skip where there is no device"
  check "the programs build with --config=cuda" "${bazel[@]}" build --config=cuda //cli:shardwright_train //tests/gpu:device_check
  bazel_tests cuda --config=cuda //tests/core/device:cuda_test //tests/core/comm:nccl_test //tests/conformance/comm:nccl_conformance_test
  check "the GPU script says that it needs one, or passes" env BAZEL="${bazel[*]}" tests/gpu/run.sh
}

run_e2e() {
  stage "end to end: the programs as people run them"
  check "the programs build" "${bazel[@]}" build //cli:shardwright //cli:shardwright_train //tests/bench:strategy_memory
  SHARDWRIGHT_BIN=$("${bazel[@]}" info bazel-bin 2>/dev/null)/cli/shardwright
  export SHARDWRIGHT_BIN
  count e2e unittest tests/e2e
  check "quickstart" tests/e2e/quickstart_test.sh
}

finish() {
  stage "all told"
  printf '   %s s\n' "$(seconds_since "$start")"
  for failure in ${failures[@]+"${failures[@]}"}; do printf '   FAILED  %s\n' "$failure"; done
  printf '%s passed, %s failed' $passed $failed
  [ $skipped = 0 ] || printf ', %s skipped' $skipped
  printf '\n'
  [ $failed = 0 ]
}

interrupted() {
  failed=$((failed + 1))
  failures+=("interrupted")
  finish
  exit 130
}

start=$EPOCHREALTIME
stages=("$@")
[ $# -gt 0 ] || stages=("${all_stages[@]}")
for name in "${stages[@]}"; do
  [[ " ${all_stages[*]} " == *" $name "* ]] || { echo "$0: unknown stage $name, expected some of: ${all_stages[*]}" >&2; exit 2; }
done
trap interrupted INT TERM

tools/setup.sh --tests || { say "0 passed, 1 failed"; exit 1; }
for name in "${stages[@]}"; do
  "run_$name"
  stage_done
done
tools/prune_cache.py
finish
