// What a run is told: options of the trainer.
#ifndef SHARDWRIGHT_CORE_TRAINER_TRAINER_OPTIONS_H_
#define SHARDWRIGHT_CORE_TRAINER_TRAINER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/manifest/value.h"

namespace shardwright {

struct TrainerOptions {
  // Behaviour.
  std::string run_directory;
  int64_t max_steps = 200;       // of the whole run, resumed parts included
  int64_t batch_size = 32;       // samples of one optimizer step over all ranks
  int64_t accumulate_steps = 1;  // micro-batches of one optimizer step
  uint64_t seed = 1;
  // "auto": the newest intact checkpoint of the run directory, fresh if there is none. "none": fresh in any case; older
  // checkpoints stay. A step's number. A name in the run directory ("last"), or a path ("file:" in front forces that).
  std::string resume = "auto";
  // A checkpoint to start from: weights only, counters at zero. With "auto" it applies while the run has no checkpoint
  // of its own, so that the same command line starts and continues a run; beside a step or path it is refused.
  std::string init_from;
  bool strict = true;
  CheckLevel check = CheckLevel::kFull;
  // What must be the same when a run is continued: written into the checkpoint, compared on resume.
  Value::Map fixed_config;
};

// kInvalidArgument naming option, value and what is expected; batch_size has to be divisible by world size x
// accumulate_steps.
absl::Status ValidateTrainerOptions(const TrainerOptions& options, int32_t world_size);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_TRAINER_OPTIONS_H_
