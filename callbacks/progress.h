// progress: what a person sees of a run, on standard error, from rank 0.
//
//   terminal, one line that is rewritten:      step  50/200  loss 3.11  41k tok/s  eta 31 s
//   pipe, one line every log_every_steps:      the same
//   a checkpoint:                              saved step 100  124 MiB  0.21 s
#ifndef SHARDWRIGHT_CALLBACKS_PROGRESS_H_
#define SHARDWRIGHT_CALLBACKS_PROGRESS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/callbacks/throughput.h"
#include "shardwright/core/callback/callback.h"

namespace shardwright {

class Progress : public Callback {
 public:
  explicit Progress(const CallbackOptions& options);
  ~Progress() override;

  absl::string_view name() const override { return "progress"; }
  bool MayActAt(int64_t step) const override { return false; }
  void OnTrainStart(const TrainState& state) override;
  Action OnStepEnd(const TrainState& state) override;
  Action OnTrainEnd(const TrainState& state) override;
  void OnSaved(const SavedCheckpoint& saved) override;
  void BeforeNote() override;

 private:
  std::vector<std::string> Fields(const TrainState& state) const;
  void Show(const TrainState& state);
  void Rewrite(const TrainState& state);
  void PrintLine(absl::string_view line);

  const CallbackOptions options_;
  bool silent_;
  Throughput throughput_;
  bool stepped_ = false;
  int64_t shown_step_ = -1;
  absl::Duration shown_at_;    // of the run's time: a line is not rewritten more often than an eye can follow
  bool line_is_open_ = false;  // the terminal's cursor stands on our line
};

std::unique_ptr<Callback> MakeProgress(const CallbackOptions& options);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CALLBACKS_PROGRESS_H_
