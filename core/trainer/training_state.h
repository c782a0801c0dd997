// The trainer's part of a checkpoint's extras: what a run has to have in common with the one that it continues, and the
// callbacks' states. Counters are in the manifest's TrainingProgress.
//
//   extras["trainer"]            seed, data, samples, batch_size, accumulate_steps, fixed_config, callbacks
//   rank_extras[r]["trainer"]    random: the generators of rank r
#ifndef SHARDWRIGHT_CORE_TRAINER_TRAINING_STATE_H_
#define SHARDWRIGHT_CORE_TRAINER_TRAINING_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/manifest/manifest.h"

namespace shardwright {

struct TrainingState {
  uint64_t seed = 0;
  std::string data;     // fingerprint
  int64_t samples = 0;  // of one epoch
  int64_t batch_size = 0;
  int64_t accumulate_steps = 0;
  Value::Map fixed_config;
  Value::Map callbacks;  // name -> its state

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

Value::Map ToExtras(const TrainingState& state);
Value::Map ToRankExtras(const Value::Map& random_state);

// kInvalidArgument naming what is missing or of another type: the checkpoint was not written by a trainer.
absl::StatusOr<TrainingState> TrainingStateOf(const Manifest& manifest);
// nullopt if the checkpoint has none for this rank.
std::optional<Value::Map> RandomStateOf(const Manifest& manifest, int32_t rank);

// kInvalidArgument naming each key whose value differs, with both values, and what to do.
absl::Status CheckContinues(const TrainingState& saved, const TrainingState& current);
// Differences that are allowed but change numbers: "batch_size was 32, is 64 from here on".
std::vector<std::string> AllowedChanges(const TrainingState& saved, const TrainingState& current);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_TRAINING_STATE_H_
