#include "shardwright/callbacks/model_checkpoint.h"

#include "absl/status/status.h"

namespace shardwright {
namespace {
constexpr char kLastSavedStep[] = "last_saved_step";
}  // namespace

ModelCheckpoint::ModelCheckpoint(const CallbackOptions& options)
    : every_steps_(options.save_every_steps), save_last_(options.save_last) {}

bool ModelCheckpoint::MayActAt(int64_t step) const {
  return every_steps_ > 0 && step % every_steps_ == 0;
}

Action ModelCheckpoint::OnStepEnd(const TrainState& state) {
  return MayActAt(state.progress.step) ? SaveOnce(state.progress.step) : Action{};
}

Action ModelCheckpoint::OnTrainEnd(const TrainState& state) {
  return SaveOnce(state.progress.step);
}

Action ModelCheckpoint::SaveOnce(int64_t step) {
  if (step == last_saved_step_) return {};
  // Set now and not in OnSaved: the state that goes into this very checkpoint has to know of it.
  last_saved_step_ = step;
  return Action{.save = true};
}

void ModelCheckpoint::OnSaved(const SavedCheckpoint& saved) {
  last_saved_step_ = saved.step;
}

std::vector<std::string> ModelCheckpoint::StandingLinks() const {
  return save_last_ ? std::vector<std::string>{"last"} : std::vector<std::string>{};
}

Value::Map ModelCheckpoint::SaveState() const {
  return {{kLastSavedStep, last_saved_step_}};
}

absl::Status ModelCheckpoint::LoadState(const Value::Map& state) {
  const auto found = state.find(kLastSavedStep);
  if (found == state.end()) return absl::OkStatus();
  const int64_t* step = found->second.get_if<int64_t>();
  if (step == nullptr) return absl::InvalidArgumentError("last_saved_step: expected an integer");
  last_saved_step_ = *step;
  return absl::OkStatus();
}

std::unique_ptr<Callback> MakeModelCheckpoint(const CallbackOptions& options) {
  return std::make_unique<ModelCheckpoint>(options);
}

}  // namespace shardwright
