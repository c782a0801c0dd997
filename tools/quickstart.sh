#!/usr/bin/env bash
# From a fresh clone to a trained, stopped, resumed and verified run on real text.
#
#   tools/quickstart.sh            sets up, builds, and trains into runs/quickstart (the next run: runs/quickstart-2, ...)
#
# A small GPT learns Debian's fortunes with two processes. SIGTERM stops it half-way; it resumes from exactly there. The script
# fails unless the resumed run starts at the stopped step and reaches its end, the loss falls, and every byte verifies.
# QUICKSTART_STEPS sets the length of the run. BAZEL="bazel --output_base=..." chooses another Bazel command.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$project"

read -ra bazel <<<"${BAZEL:-bazel}"
steps=${QUICKSTART_STEPS:-200}
text=/usr/share/games/fortunes
trainer=''

# The first name that is free, so that no earlier run is touched.
fresh_run() {
  local run=runs/quickstart n=2
  while [ -e "$run" ]; do
    run=runs/quickstart-$n
    n=$((n + 1))
  done
  echo "$run"
}

build() {
  local log=$logs/quickstart-build.log
  stage "building (the first time takes minutes, later ones seconds)"
  "${bazel[@]}" build //cli:shardwright //cli:shardwright_train >"$log" 2>&1 </dev/null ||
    { tail -n 40 "$log" >&2; die "the build failed; all of its output: $log"; }
  stage_done
  shardwright=$("${bazel[@]}" info bazel-bin 2>/dev/null)/cli/shardwright
  # A path for people to type, where Bazel left its link.
  # shellcheck disable=SC2100
  if [ bazel-bin/cli/shardwright -ef "$shardwright" ]; then shardwright=bazel-bin/cli/shardwright; fi
}

train_words() {
  echo train --model=gpt --data=$text --strategy=zero3 --nproc_per_node=2 --run_dir="$run" --max_steps="$steps" \
    --batch_size=32 --save_every_steps=$((steps / 4)) --log_every_steps=$((steps / 16)) --seed=1
}

# start_training LOG: in the background; what it says is shown and kept.
start_training() {
  local words
  read -ra words <<<"$(train_words)"
  say "   $shardwright ${words[*]}"
  : >"$1" # An earlier run's lines must not be taken for this one's.
  "$shardwright" "${words[@]}" > >(tee -a "$1") 2>&1 </dev/null &
  trainer=$!
}

# end_training STATUS: waits for the trainer, which must exit so.
end_training() {
  local status=0
  wait "$trainer" || status=$?
  trainer=''
  sleep 0.2 # tee's last lines
  [ $status = "$1" ] || die "training exited with status $status, expected $1"
}

# last_step LOG: of its progress lines; 0 before the first.
last_step() { sed -nE 's/.*step +([0-9]+)\/[0-9]+.*/\1/p' "$1" | tail -n 1 | grep . || echo 0; }

losses() { sed -nE 's/.*step +[0-9]+\/[0-9]+ +loss +([0-9.e+-]+).*/\1/p' "$1"; }

wait_for_half() {
  while [ "$(last_step "$1")" -lt $((steps / 2)) ]; do
    kill -0 "$trainer" 2>/dev/null || die "training ended before step $((steps / 2))"
    sleep 0.1
  done
}

saved_step() { "$shardwright" inspect --json "$run" | python3 -c 'import json, sys; print(json.load(sys.stdin)["progress"]["step"])'; }

train_and_stop() {
  stage "training a small GPT on $text with two processes; SIGTERM comes at half of its $steps steps"
  start_training "$logs/quickstart-train.log"
  wait_for_half "$logs/quickstart-train.log"
  say "   sending SIGTERM"
  kill -TERM "$trainer"
  end_training 143
  stopped=$(saved_step)
  stage_done
  say "   stopped at step $stopped, saved there, exit status 143 (128 + SIGTERM)"
}

resume() {
  stage "the same command again: it resumes from step $stopped"
  start_training "$logs/quickstart-resume.log"
  end_training 0
  stage_done
  local resumed
  resumed=$(sed -nE 's/.*resuming from step-0*([0-9]+).*/\1/p' "$logs/quickstart-resume.log" | head -n 1)
  [ "$resumed" = "$stopped" ] || die "the run resumed from step ${resumed:-none}, but had stopped at step $stopped"
  [ "$(saved_step)" = "$steps" ] || die "the run ended at step $(saved_step), expected $steps"
  say "   resumed at step $resumed, ended at step $steps"
}

check_loss() {
  local first last
  first=$(losses "$logs/quickstart-train.log" | head -n 1)
  last=$(losses "$logs/quickstart-resume.log" | tail -n 1)
  # A falling loss is the sign that it learned: 5.5 is what guessing among 256 bytes costs.
  python3 -c "import sys; sys.exit(not float('$last') < 0.8 * float('$first'))" || die "the loss went from $first to $last: it did not fall"
  say "   loss: $first -> $last"
}

look() {
  stage "what the newest checkpoint holds"
  say "   $shardwright inspect $run"
  "$shardwright" inspect "$run"
  stage_done
  stage "is every byte of every checkpoint as it was written?"
  say "   $shardwright verify $run/step-*"
  "$shardwright" verify "$run"/step-* || die "a checkpoint of $run is damaged"
  stage_done
  stage "what the model writes after so short a training"
  say "   $shardwright sample $run --prompt=\"The best way to \" --tokens=200"
  "$shardwright" sample "$run" --prompt="The best way to " --tokens=200
  echo
  stage_done
}

what_next() {
  cat <<END

All done in $(seconds_since "$start") s. What to try next:
  train this run further      $shardwright train --flagfile=$run/flags --max_steps=$((steps * 2))
  your own text               $shardwright train --data=FILE_OR_FOLDER --strategy=zero3 --nproc_per_node=2 --run_dir=runs/mine
  stop it with Ctrl-C, and the same command goes on from there
  other prompts               $shardwright sample $run --prompt="A computer is " --temperature=0.5
  every flag                  $shardwright train --help
  every test                  tools/test.sh
END
}

on_exit() { [ -z "$trainer" ] || kill -TERM "$trainer" 2>/dev/null || true; }

[ $# = 0 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
start=$EPOCHREALTIME
trap on_exit EXIT
tools/setup.sh
run=$(fresh_run)
build
train_and_stop
resume
check_loss
look
what_next
