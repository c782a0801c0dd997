// How a run begins: its directory is taken, what it starts from is chosen on rank 0, and the state is loaded and
// restored.
#ifndef SHARDWRIGHT_CORE_TRAINER_RUN_START_H_
#define SHARDWRIGHT_CORE_TRAINER_RUN_START_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/core/strategy/strategy.h"
#include "shardwright/core/trainer/notes.h"
#include "shardwright/core/trainer/start_point.h"
#include "shardwright/core/trainer/trainer_options.h"
#include "shardwright/core/trainer/training_state.h"

namespace shardwright {

// Single-threaded. Borrows everything. All methods are collective and called in this order: Open, Load.
class RunStart {
 public:
  RunStart(const TrainerOptions& options, const StrategyContext& context, const TrainingState& current,
           const Callbacks& callbacks, const Notes& notes);

  // Makes and locks the run's directory, removes what dead saves left, chooses the start point and checks that this run
  // may continue it. The lock is held as long as this object lives.
  absl::Status Open();
  // After Strategy::Setup. Loads; with "auto", passes over checkpoints whose bytes turn out damaged, naming them.
  absl::Status Load(Strategy& strategy);

  // Zero unless a run is continued.
  const TrainingProgress& progress() const { return progress_; }
  // The checkpoint that is continued; empty if there is none.
  const std::string& resumed_from() const { return resumed_from_; }
  // "starting fresh", "resuming from runs/demo/step-00000100"
  std::string Describe() const;

 private:
  absl::Status OpenDirectory();
  // Runs `choose` on rank 0, checks its choice there, and tells all ranks.
  absl::Status Choose(const std::function<absl::StatusOr<StartPoint>()>& choose);
  absl::StatusOr<std::shared_ptr<const Manifest>> LoadPoint(Strategy& strategy);
  absl::Status Restore(const Manifest& manifest, Strategy& strategy);
  absl::Status RestoreRandom(const Manifest& manifest, Strategy& strategy);
  void NoteChanges(const Manifest& manifest, const TrainingState& saved, const Strategy& strategy) const;
  bool FallsBack(const absl::Status& status) const;
  Communicator& control() const { return *context_.groups->control; }

  const TrainerOptions& options_;
  const StrategyContext& context_;
  const TrainingState& current_;
  const Callbacks& callbacks_;
  const Notes& notes_;
  std::unique_ptr<FileLock> lock_;  // rank 0
  StartPoint point_;                // `skipped` on rank 0 alone
  TrainingProgress progress_;
  std::string resumed_from_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_RUN_START_H_
