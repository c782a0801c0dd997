// Makes the run's checkpoints: one capture a step, whoever wished for it, under a fresh name, then the links.
#ifndef SHARDWRIGHT_CORE_TRAINER_CHECKPOINT_SAVER_H_
#define SHARDWRIGHT_CORE_TRAINER_CHECKPOINT_SAVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardwright/core/strategy/strategy.h"
#include "shardwright/core/trainer/notes.h"
#include "shardwright/core/trainer/training_state.h"

namespace shardwright {

// Single-threaded. Borrows everything.
class CheckpointSaver {
 public:
  CheckpointSaver(std::string run_directory, const StrategyContext& context, Strategy& strategy,
                  const Callbacks& callbacks);

  // The checkpoint that the run continues: its step is not saved again, if it is one of this run's directory.
  void SetResumed(const std::string& path, int64_t step);
  // Collective. Saves, unless this step is saved already; then points `links` and the standing ones at it. Only when
  // all of that is durable are the callbacks told. `state` needs no callbacks' states: they are asked here.
  absl::Status Save(const TrainingProgress& progress, TrainingState state, const std::vector<std::string>& links);

  // The newest durable checkpoint of this run's directory; empty if there is none.
  const std::string& last_path() const { return last_path_; }

 private:
  absl::StatusOr<SaveReport> Capture(const TrainingProgress& progress, TrainingState state);
  absl::Status PointLinks(const std::vector<std::string>& links);

  const std::string run_directory_;
  const StrategyContext& context_;
  Strategy& strategy_;
  const Callbacks& callbacks_;
  std::string last_path_;
  int64_t last_step_ = -1;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_CHECKPOINT_SAVER_H_
