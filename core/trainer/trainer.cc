#include "shardwright/core/trainer/trainer.h"

#include <chrono>
#include <csignal>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/trainer/batch_feed.h"
#include "shardwright/core/trainer/checkpoint_saver.h"
#include "shardwright/core/trainer/run_start.h"
#include "shardwright/core/trainer/step_control.h"
#include "shardwright/core/trainer/stop_signal.h"
#include "shardwright/core/trainer/training_state.h"

namespace shardwright {
namespace {

absl::Duration MonotonicTime() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

absl::string_view SignalName(int signal) {
  return signal == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace

struct Trainer::Impl {
  Impl(TrainerOptions options_in, StrategyContext context_in, std::unique_ptr<Strategy> strategy_in,
       Callbacks callbacks_in, std::unique_ptr<TextData> data_in, NoteFunction note)
      : options(std::move(options_in)),
        context(context_in),
        strategy(std::move(strategy_in)),
        callbacks(std::move(callbacks_in)),
        data(std::move(data_in)),
        control(*context.groups->control),
        notes(std::move(note), callbacks, control.rank() == 0),
        saver(options.run_directory, context, *strategy, callbacks) {}

  absl::StatusOr<TrainResult> Run(std::unique_ptr<Module> module);
  TrainingState CurrentState() const;
  absl::Status Begin(const RunStart& start, int64_t sample_tokens);
  absl::Status Loop();
  absl::Status RunStep(const BatchFeed& feed);
  // Callbacks' wishes as rank 0 has them.
  absl::StatusOr<Action> Decide(bool due);
  bool DecisionMayBeDue(int64_t step) const;
  absl::Status Perform(const Action& action);
  absl::Status StopForSignal();
  absl::Status End();
  void Commit(const StepResult& step, double loss, absl::Duration duration);
  bool Running() const;

  TrainerOptions options;
  StrategyContext context;
  std::unique_ptr<Strategy> strategy;
  Callbacks callbacks;
  std::unique_ptr<TextData> data;
  Communicator& control;
  Notes notes;
  CheckpointSaver saver;

  TrainState state;
  TrainResult result;
  int64_t sample_tokens = 0;
  bool stopped = false;  // by a callback
  absl::Duration began;
};

absl::StatusOr<TrainResult> Trainer::Impl::Run(std::unique_ptr<Module> module) {
  SW_RETURN_IF_ERROR(ValidateTrainerOptions(options, control.size()));
  const TrainingState current = CurrentState();
  RunStart start(options, context, current, callbacks, notes);
  SW_RETURN_IF_ERROR(start.Open());
  const int64_t tokens = module->sample_tokens();
  SW_RETURN_IF_ERROR(strategy->Setup(std::move(module)));
  SW_RETURN_IF_ERROR(start.Load(*strategy));
  SW_RETURN_IF_ERROR(Begin(start, tokens));
  SW_RETURN_IF_ERROR(Loop());
  SW_RETURN_IF_ERROR(End());
  result.progress = state.progress;
  result.last_loss = state.loss;
  result.last_checkpoint = saver.last_path();
  return result;
}

TrainingState Trainer::Impl::CurrentState() const {
  return TrainingState{.seed = options.seed,
                       .data = data->fingerprint(),
                       .samples = data->samples(),
                       .batch_size = options.batch_size,
                       .accumulate_steps = options.accumulate_steps,
                       .fixed_config = options.fixed_config,
                       .callbacks = {}};
}

absl::Status Trainer::Impl::Begin(const RunStart& start, int64_t tokens) {
  sample_tokens = tokens;
  result.resumed_from = start.resumed_from();
  if (!start.resumed_from().empty()) saver.SetResumed(start.resumed_from(), start.progress().step);
  state.progress = start.progress();
  state.max_steps = options.max_steps;
  state.rank = control.rank();
  state.world_size = control.size();
  state.resident_bytes = strategy->ResidentBytes();
  notes.Say(start.Describe());
  if (state.progress.step >= options.max_steps) {
    notes.Say(absl::StrCat("nothing left to train: step ", state.progress.step, " of ", options.max_steps,
                           "; ask for more with --max_steps"));
  }
  for (const std::unique_ptr<Callback>& callback : callbacks) callback->OnTrainStart(state);
  began = MonotonicTime();
  return absl::OkStatus();
}

bool Trainer::Impl::Running() const {
  return !stopped && result.stop_signal == 0 && state.progress.step < options.max_steps;
}

absl::Status Trainer::Impl::Loop() {
  // A signal that came while the state was loading ends the run before its first step.
  SW_ASSIGN_OR_RETURN(const StepAgreement before, AgreeOnStep(control, {.stop_signal = StopSignal::received()}));
  result.stop_signal = before.stop_signal;
  if (result.stop_signal != 0) notes.Say(absl::StrCat(SignalName(result.stop_signal), " caught before the first step"));
  const BatchFeed feed(*data, options.seed, options.batch_size, options.accumulate_steps, control.rank(),
                       control.size());
  while (Running()) SW_RETURN_IF_ERROR(RunStep(feed));
  return absl::OkStatus();
}

absl::Status Trainer::Impl::RunStep(const BatchFeed& feed) {
  const absl::Duration begin = MonotonicTime();
  SW_ASSIGN_OR_RETURN(const StepResult step,
                      strategy->TrainStep(feed.At(state.progress.samples_seen), state.progress.step));
  SW_ASSIGN_OR_RETURN(const StepAgreement agreed,
                      AgreeOnStep(control, {.loss = step.loss,
                                            .stop_signal = StopSignal::received(),
                                            .decision_due = DecisionMayBeDue(state.progress.step + 1)}));
  Commit(step, agreed.loss, MonotonicTime() - begin);
  SW_ASSIGN_OR_RETURN(const Action action, Decide(agreed.decision_due));
  SW_RETURN_IF_ERROR(Perform(action));
  result.stop_signal = agreed.stop_signal;
  return result.stop_signal == 0 ? absl::OkStatus() : StopForSignal();
}

void Trainer::Impl::Commit(const StepResult& step, double loss, absl::Duration duration) {
  state.progress.step += 1;
  state.progress.samples_seen += options.batch_size;
  state.progress.epoch = state.progress.samples_seen / data->samples();
  state.loss = loss;
  state.learning_rate = step.learning_rate;
  state.gradient_norm = step.gradient_norm;
  state.step_samples = options.batch_size;
  // A sample's first token is only read, the others are predicted.
  state.step_tokens = options.batch_size * (sample_tokens - 1);
  state.step_duration = duration;
  state.elapsed = MonotonicTime() - began;
  state.resident_bytes = strategy->ResidentBytes();
}

bool Trainer::Impl::DecisionMayBeDue(int64_t step) const {
  for (const std::unique_ptr<Callback>& callback : callbacks) {
    if (callback->MayActAt(step)) return true;
  }
  return false;
}

absl::StatusOr<Action> Trainer::Impl::Decide(bool due) {
  Action wishes;
  for (const std::unique_ptr<Callback>& callback : callbacks) {
    const Action wish = callback->OnStepEnd(state);
    if (!due && control.rank() == 0 && wish != Action{}) {
      return absl::InternalError(absl::StrCat("callback ", callback->name(), " acts at step ", state.progress.step,
                                              ", which its MayActAt ruled out"));
    }
    wishes.Merge(wish);
  }
  return due ? ShareAction(control, wishes) : Action{};
}

absl::Status Trainer::Impl::Perform(const Action& action) {
  if (action.save || !action.links.empty()) {
    SW_RETURN_IF_ERROR(saver.Save(state.progress, CurrentState(), action.links));
  }
  if (action.stop) {
    stopped = true;
    result.stop_reason = action.stop_reason;
    notes.Say(absl::StrCat("stopping at step ", state.progress.step, ": ", action.stop_reason));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Impl::StopForSignal() {
  notes.Say(absl::StrCat(SignalName(result.stop_signal), " caught: saving step ", state.progress.step,
                         ", again to end at once"));
  return Perform(Action{.save = true});
}

absl::Status Trainer::Impl::End() {
  if (result.stop_signal != 0) return absl::OkStatus();
  Action wishes;
  for (const std::unique_ptr<Callback>& callback : callbacks) wishes.Merge(callback->OnTrainEnd(state));
  SW_ASSIGN_OR_RETURN(const Action action, ShareAction(control, wishes));
  return Perform(action);
}

Trainer::Trainer(TrainerOptions options, StrategyContext context, std::unique_ptr<Strategy> strategy,
                 std::vector<std::unique_ptr<Callback>> callbacks, std::unique_ptr<TextData> data, NoteFunction note)
    : impl_(std::make_unique<Impl>(std::move(options), context, std::move(strategy), std::move(callbacks),
                                   std::move(data), std::move(note))) {}

Trainer::~Trainer() = default;

absl::StatusOr<TrainResult> Trainer::Run(std::unique_ptr<Module> module) {
  const StopSignal signals;
  absl::StatusOr<TrainResult> result = impl_->Run(std::move(module));
  if (!result.ok()) {
    impl_->notes.ClearTerminal();
    impl_->context.groups->Abandon(result.status());
  }
  return result;
}

}  // namespace shardwright
