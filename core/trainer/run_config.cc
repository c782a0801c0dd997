#include "shardwright/core/trainer/run_config.h"

#include <utility>

#include "shardwright/core/trainer/training_state.h"

namespace shardwright {

absl::StatusOr<Value::Map> FixedConfigOf(const Manifest& manifest) {
  absl::StatusOr<TrainingState> state = TrainingStateOf(manifest);
  if (!state.ok()) return absl::FailedPreconditionError("it was not written by a training run: it says of no model");
  return std::move(state->fixed_config);
}

}  // namespace shardwright
