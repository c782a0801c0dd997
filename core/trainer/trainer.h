// Trainer: the loop. Owns strategy and callbacks, performs callbacks' actions, agrees with the other ranks at step
// boundaries, resumes and stops.
#ifndef SHARDWRIGHT_CORE_TRAINER_TRAINER_H_
#define SHARDWRIGHT_CORE_TRAINER_TRAINER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shardwright/core/callback/callback.h"
#include "shardwright/core/data/sampler.h"
#include "shardwright/core/data/text_data.h"
#include "shardwright/core/strategy/strategy.h"

namespace shardwright {

struct TrainerOptions {
  // Behaviour.
  std::string run_directory;
  int64_t max_steps = 200;
  int64_t batch_size = 32;        // samples of one optimizer step over all ranks
  int64_t accumulate_steps = 1;   // micro-batches of one optimizer step
  uint64_t seed = 1;
  std::string resume = "auto";    // "auto", "none", a step's number, or a checkpoint's path
  std::string init_from;          // a checkpoint to start from: weights only, counters at zero
  bool strict = true;
  CheckLevel check = CheckLevel::kFull;
  // What must be the same when a run is continued: written into the checkpoint, compared on resume.
  Value::Map fixed_config;
};

struct TrainResult {
  TrainingProgress progress;
  double last_loss = 0;
  int stop_signal = 0;         // SIGINT or SIGTERM that ended the run; 0: it ran to its end
  std::string stop_reason;     // of a callback
  std::string resumed_from;    // path, empty: fresh
  std::string last_checkpoint; // newest durable one
};

// Lines for people, on rank 0: "resuming from ...", "saved ...". The trainer prints nothing itself.
using NoteFunction = std::function<void(absl::string_view line)>;

// Single-threaded; all methods collective.
class Trainer {
 public:
  Trainer(TrainerOptions options, StrategyContext context, std::unique_ptr<Strategy> strategy,
          std::vector<std::unique_ptr<Callback>> callbacks, std::unique_ptr<TextData> data, NoteFunction note);
  ~Trainer();

  // Trains to max_steps, or until a callback or a signal stops it; saves as asked and once when stopped by a signal.
  // `module` is not configured yet. On an error of this rank, its groups are abandoned, so that no other waits for it.
  absl::StatusOr<TrainResult> Run(std::unique_ptr<Module> module);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_TRAINER_H_
