// model_checkpoint: wishes for a checkpoint every n optimizer steps and at the end of the run, and keeps the link
// `last` on the newest durable one.
#ifndef SHARDWRIGHT_CALLBACKS_MODEL_CHECKPOINT_H_
#define SHARDWRIGHT_CALLBACKS_MODEL_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/core/callback/callback.h"

namespace shardwright {

class ModelCheckpoint : public Callback {
 public:
  explicit ModelCheckpoint(const CallbackOptions& options);

  absl::string_view name() const override { return "model_checkpoint"; }
  bool MayActAt(int64_t step) const override;
  Action OnStepEnd(const TrainState& state) override;
  Action OnTrainEnd(const TrainState& state) override;
  void OnSaved(const SavedCheckpoint& saved) override;
  std::vector<std::string> StandingLinks() const override;
  // The last saved step, so that a resumed run does not save the step it comes from again.
  Value::Map SaveState() const override;
  absl::Status LoadState(const Value::Map& state) override;

 private:
  Action SaveOnce(int64_t step);

  const int64_t every_steps_;
  const bool save_last_;
  int64_t last_saved_step_ = 0;  // nothing is worth saving before the first step
};

std::unique_ptr<Callback> MakeModelCheckpoint(const CallbackOptions& options);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CALLBACKS_MODEL_CHECKPOINT_H_
