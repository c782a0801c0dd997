// Trainer: the loop. Owns strategy and callbacks, performs callbacks' actions, agrees with the other ranks at step
// boundaries, resumes and stops.
//
//   Open directory -> choose start -> Setup -> Load -> [ batches -> TrainStep -> agree -> callbacks -> save? ]* -> end
//
// Counters are committed before callbacks run and before anything is saved: a checkpoint of step n holds n finished
// steps.
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
#include "shardwright/core/trainer/notes.h"
#include "shardwright/core/trainer/trainer_options.h"

namespace shardwright {

struct TrainResult {
  TrainingProgress progress;
  double last_loss = 0;
  int stop_signal = 0;          // SIGINT or SIGTERM that ended the run; 0: it ran to its end
  std::string stop_reason;      // of a callback
  std::string resumed_from;     // path, empty: fresh
  std::string last_checkpoint;  // newest durable one of the run's directory
};

// Single-threaded; all methods collective. Run holds a StopSignal.
class Trainer {
 public:
  // `note` gets lines for people, on rank 0: what is resumed, skipped, changed, caught. It may be null. The trainer
  // prints nothing itself; loss and saved checkpoints are the progress callback's to show.
  Trainer(TrainerOptions options, StrategyContext context, std::unique_ptr<Strategy> strategy,
          std::vector<std::unique_ptr<Callback>> callbacks, std::unique_ptr<TextData> data, NoteFunction note);
  ~Trainer();

  // Trains to max_steps, or until a callback or a signal stops it; saves as asked and once when stopped by a signal.
  // `module` is not configured yet. On an error of this rank, its groups are abandoned, so that no other waits for it.
  // Call once.
  absl::StatusOr<TrainResult> Run(std::unique_ptr<Module> module);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_TRAINER_H_
