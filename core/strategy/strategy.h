// Strategy: owns a module and all of its state: parameters, buffers, gradients, optimizer state. It is the only code
// that steps, saves, loads or alters it, and the only caller of the module's hooks. Torch-free; the concrete ones are
// behind the fence, in strategies/.
#ifndef SHARDWRIGHT_CORE_STRATEGY_STRATEGY_H_
#define SHARDWRIGHT_CORE_STRATEGY_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardwright/core/base/memory_budget.h"
#include "shardwright/core/base/table.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/device/device.h"
#include "shardwright/core/module/module.h"
#include "shardwright/core/plan/placement.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

struct StrategyOptions {
  // Behaviour.
  uint64_t seed = 1;
  double clip_gradient_norm = 0;  // 0: no clipping
  SaveLayout save_layout = SaveLayout::kSharded;
  LoadOrder load_order;
  // What forward and backward compute in: kFloat32 or kBFloat16. State, and gradients once they are reduced, stay as
  // the model has them.
  DType compute_dtype = DType::kFloat32;
  // Performance.
  bool recompute_activations = false;  // of units, in backward, instead of keeping them
  uint64_t gradient_bucket_bytes = 25 * 1024 * 1024;
};

// Borrowed by a strategy for its life.
struct StrategyContext {
  CommGroups* groups = nullptr;    // Not owned.
  Storage* storage = nullptr;      // Not owned.
  MemoryBudget* budget = nullptr;  // Not owned. The allowance of this host.
  World world;
  Device device = {};  // where this rank's tensors are; groups->data takes memory of it
};

struct StepResult {
  double loss = 0;           // mean over this rank's samples
  double gradient_norm = 0;  // before clipping, of the whole model; 0 where it was not computed
  double learning_rate = 0;  // of the first group
};

struct SaveRequest {
  std::string path;  // of the checkpoint to make
  TrainingProgress progress;
  Value::Map extras;       // the trainer's and callbacks', rank 0's are kept
  Value::Map rank_extras;  // the trainer's, of this rank
};

struct LoadRequest {
  std::string path;
  bool strict = true;
  bool weights_only = false;  // parameters and buffers; the optimizer starts anew
  LoadOptions io;
};

struct LoadResult {
  std::shared_ptr<const Manifest> manifest;
  LoadReport report;
  std::vector<std::string> skipped;  // what lenient loading left as it was
  std::vector<std::string> notes;    // what goes on under other hyperparameters: "learning_rate was 0.001, is 0.0005"
};

// Single-threaded. Methods that are collective say so: every rank calls them in the same order.
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual absl::string_view name() const = 0;
  // Collective. Takes the module, seeds, runs ConfigureShardedModel and ConfigureOptimizers, allocates optimizer state.
  // Parameters are equal on all ranks afterwards (rank 0's).
  virtual absl::Status Setup(std::unique_ptr<Module> module) = 0;

  // Collective. One optimizer step over `micro_batches` (gradient accumulation): forward, backward, reduction,
  // clipping, update. `step` counts the optimizer steps finished before this one: 0 for the first; the schedule is
  // asked at it. Every rank brings equally many samples, so that the mean over ranks is the mean over samples.
  // Micro-batches but the last cost no communication under single_device, ddp and zero1; strategies whose gradients are
  // sharded (zero2, zero3) reduce every one, so that no rank ever holds all gradients. A parameter that no micro-batch
  // used counts as one with a zero gradient, under every strategy.
  // kFailedPrecondition before Setup or after a load that failed half-way; kInternal with the number of the step (step
  // + 1) if the loss or the gradient's norm is not finite: nothing was updated then.
  virtual absl::StatusOr<StepResult> TrainStep(absl::Span<const Batch> micro_batches, int64_t step) = 0;
  // Collective. Metrics over this rank's batch, without gradients.
  virtual absl::StatusOr<std::map<std::string, double>> ValidationStep(const Batch& batch) = 0;
  // Collective, with the same arguments on every rank: Module::Generate.
  virtual absl::StatusOr<std::vector<int32_t>> Generate(const std::vector<int32_t>& prompt, int64_t count,
                                                        double temperature, uint64_t seed) = 0;

  // Collective. One capture: runs OnSaveCheckpoint once on every rank, plans, writes, commits.
  virtual absl::StatusOr<SaveReport> Save(const SaveRequest& request) = 0;
  // Collective. OnLoadCheckpoint once per rank -> views compared across ranks -> strictness judged over all ranks ->
  // planned -> loaded. Nothing of the module changes before that last stage.
  virtual absl::StatusOr<LoadResult> Load(const LoadRequest& request) = 0;

  // Bytes of this rank's state: parameters, buffers, optimizer state.
  virtual uint64_t ResidentBytes() const = 0;
  // How often state was captured for saving: one per saved step, whatever asked for it.
  virtual int64_t captures() const = 0;
  // This rank's random generators by name, to be put in SaveRequest::rank_extras and set after a load. Which there are
  // depends on the device.
  virtual Value::Map RandomState() const = 0;
  virtual absl::Status SetRandomState(const Value::Map& state) = 0;
  // Starts this rank's random stream anew from (seed, step, rank): after a load at another world size.
  virtual void ReseedRandom(int64_t step) = 0;
  // Threads that tensor arithmetic uses: results are bit-equal only at the same count.
  virtual int32_t threads() const = 0;
};

using StrategyFactory =
    std::function<std::unique_ptr<Strategy>(const StrategyOptions& options, StrategyContext context)>;
using StrategyTable = Table<StrategyFactory>;

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_STRATEGY_H_
