// Callback: watches a run and answers with wishes; it never calls the trainer.
#ifndef SHARDWRIGHT_CORE_CALLBACK_CALLBACK_H_
#define SHARDWRIGHT_CORE_CALLBACK_CALLBACK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shardwright/core/base/table.h"
#include "shardwright/core/manifest/manifest.h"

namespace shardwright {

// A read-only look at the run, after a finished optimizer step.
struct TrainState {
  TrainingProgress progress;
  int64_t max_steps = 0;
  double loss = 0;  // mean over all ranks
  double learning_rate = 0;
  double gradient_norm = 0;
  std::map<std::string, double> metrics;  // of the last validation
  int64_t step_samples = 0;               // of the last step, all ranks
  int64_t step_tokens = 0;
  absl::Duration step_duration;  // of the last step, saving not included
  absl::Duration elapsed;        // of this process's run
  int32_t rank = 0;
  int32_t world_size = 1;
  uint64_t resident_bytes = 0;
};

// What was saved, for those who report it.
struct SavedCheckpoint {
  std::string path = {};
  int64_t step = 0;
  uint64_t total_bytes = 0;
  absl::Duration duration = {};
};

// A callback's wishes after a step. All callbacks' wishes of a step are merged into one decision on rank 0.
struct Action {
  bool save = false;
  std::vector<std::string> links = {};  // names to point at the checkpoint that is saved: "best"
  bool stop = false;
  std::string stop_reason = {};

  // Any save saves, any stop stops; links and reasons are kept once each, in the order of their callbacks.
  void Merge(const Action& other);

  friend bool operator==(const Action&, const Action&) = default;
};

// Single-threaded. Lives on every rank; wishes count on rank 0 alone.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual absl::string_view name() const = 0;
  // Before the first step, once the state of a resumed run is loaded.
  virtual void OnTrainStart(const TrainState& state) {}
  virtual Action OnStepEnd(const TrainState& state) { return {}; }
  // False promises that OnStepEnd wishes nothing once `step` steps are done: the ranks are then spared a message. Asked
  // of rank 0 before that step.
  virtual bool MayActAt(int64_t step) const { return true; }
  // At the end of a run that was not cut short by a signal or an error.
  virtual Action OnTrainEnd(const TrainState& state) { return {}; }
  // Once the checkpoint is durable and its links are set.
  virtual void OnSaved(const SavedCheckpoint& saved) {}
  // Names to point at every checkpoint that is saved, whoever wished for it: "last".
  virtual std::vector<std::string> StandingLinks() const { return {}; }
  // A line is about to be printed: whoever has an unfinished one on the terminal takes it away. Also when the run ends.
  virtual void BeforeNote() {}
  // Kept in the checkpoint under the callback's name, and given back on resume. Asked when the save is already decided
  // on.
  virtual Value::Map SaveState() const { return {}; }
  virtual absl::Status LoadState(const Value::Map& state) { return absl::OkStatus(); }
};

struct CallbackOptions {
  // Behaviour.
  int64_t save_every_steps = 0;  // 0: only at the end
  bool save_last = true;         // keep the link `last`
  int64_t log_every_steps = 10;  // plain lines; 0: only the last step's
  bool quiet = false;
  bool terminal = false;  // progress rewrites its line; else plain lines
  int terminal_columns = 80;
  // Where text for people goes; null: standard error.
  std::function<void(absl::string_view text)> write;
};

using CallbackFactory = std::function<std::unique_ptr<Callback>(const CallbackOptions& options)>;
using CallbackTable = Table<CallbackFactory>;

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CALLBACK_CALLBACK_H_
