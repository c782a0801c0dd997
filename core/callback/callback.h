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
  absl::Duration step_duration;
  absl::Duration elapsed;  // of this process's run
  int32_t rank = 0;
  int32_t world_size = 1;
  uint64_t resident_bytes = 0;
};

// What was saved, for those who report it.
struct SavedCheckpoint {
  std::string path;
  int64_t step = 0;
  uint64_t total_bytes = 0;
  absl::Duration duration;
};

// A callback's wishes after a step. All callbacks' wishes of a step are merged into one decision on rank 0.
struct Action {
  bool save = false;
  std::vector<std::string> links;  // names to point at the checkpoint: "last"
  bool stop = false;
  std::string stop_reason;

  void Merge(const Action& other);
};

// Single-threaded. Lives on every rank; wishes count on rank 0 alone.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual absl::string_view name() const = 0;
  virtual void OnTrainStart(const TrainState& state) {}
  virtual Action OnStepEnd(const TrainState& state) { return {}; }
  // At the end of a run that was not cut short.
  virtual Action OnTrainEnd(const TrainState& state) { return {}; }
  virtual void OnSaved(const SavedCheckpoint& saved) {}
  // Kept in the checkpoint under the callback's name, and given back on resume.
  virtual Value::Map SaveState() const { return {}; }
  virtual absl::Status LoadState(const Value::Map& state) { return absl::OkStatus(); }
};

struct CallbackOptions {
  int64_t save_every_steps = 0;  // 0: only at the end
  bool save_last = true;         // keep the link `last`
  int64_t log_every_steps = 10;
  bool quiet = false;
  bool terminal = false;  // progress rewrites its line; else plain lines
  int terminal_columns = 80;
};

using CallbackFactory = std::function<std::unique_ptr<Callback>(const CallbackOptions& options)>;
using CallbackTable = Table<CallbackFactory>;

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CALLBACK_CALLBACK_H_
