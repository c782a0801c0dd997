// FENCE: what all strategies over torch share: building the module, the training step's order, clipping, random state,
// and the way in and out of checkpoints. A concrete strategy fills in the protected part.
//
//   TrainStep:  BeginStep
//               -> { BeginPass -> forward -> BeforeBackward -> backward -> EndPass } per micro-batch
//               -> FinishGradients -> clip -> update -> EndStep
#ifndef SHARDWRIGHT_CORE_STRATEGY_TORCH_STRATEGY_H_
#define SHARDWRIGHT_CORE_STRATEGY_TORCH_STRATEGY_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shardwright/core/module/tensor_memory.h"
#include "shardwright/core/module/torch_module.h"
#include "shardwright/core/module/units.h"
#include "shardwright/core/strategy/fused_optimizer.h"
#include "shardwright/core/strategy/state_io.h"
#include "shardwright/core/strategy/strategy.h"

namespace shardwright {

// A parameter or buffer, as far as this rank holds it.
struct HeldTensor {
  TensorMeta meta;
  Box box;
  at::Tensor tensor;     // what `box` holds, contiguous, on the strategy's device
  std::string alias_of;  // as NamedTorchTensor
};

// Single-threaded, as Strategy. Ranks that are threads of one process share torch's random generator: building is done
// by one at a time, so that each draws the same numbers; dropout is not reproducible there.
class TorchStrategy : public Strategy {
 public:
  // `name` has a row in PlacementRules().
  TorchStrategy(absl::string_view name, StrategyOptions options, StrategyContext context);

  absl::string_view name() const final { return name_; }
  absl::Status Setup(std::unique_ptr<Module> module) final;
  absl::StatusOr<StepResult> TrainStep(absl::Span<const Batch> micro_batches, int64_t step) final;
  absl::StatusOr<std::map<std::string, double>> ValidationStep(const Batch& batch) final;
  absl::StatusOr<std::vector<int32_t>> Generate(const std::vector<int32_t>& prompt, int64_t count, double temperature,
                                                uint64_t seed) final;
  absl::StatusOr<SaveReport> Save(const SaveRequest& request) final;
  absl::StatusOr<LoadResult> Load(const LoadRequest& request) final;
  uint64_t ResidentBytes() const final;
  int64_t captures() const final { return captures_; }
  Value::Map RandomState() const final;
  absl::Status SetRandomState(const Value::Map& state) final;
  void ReseedRandom(int64_t step) final;
  int32_t threads() const final;

 protected:
  // Units of models that every rank holds whole.
  class PlainHooks : public UnitHooks {
   public:
    PlainHooks(bool recompute, const Device& device) : recompute_(recompute), device_(device) {}
    void OnUnit(int unit, torch::nn::Module& module) override { MoveToDevice(module, device_); }
    bool RecomputesActivations() const override { return recompute_; }

   private:
    const bool recompute_;
    const Device device_;
  };

  // What follows may throw as torch does.

  // Before anything is built: refuses worlds that the strategy cannot serve.
  virtual absl::Status CheckWorld() { return absl::OkStatus(); }
  // What happens around units while the model is built and run.
  virtual UnitHooks& unit_hooks() { return plain_hooks_; }
  // What this rank holds of the built model's tensors, on the device. By default all of them, whole.
  virtual std::vector<HeldTensor> Hold(TorchModule& module);
  // What this rank steps. By default the trainable parameters as they are held.
  virtual std::vector<SteppedParameter> Stepped();
  // Collective. The model and its optimizer are built, equally on all ranks: make parameters equal, prepare gradients.
  virtual absl::Status OnBuilt() { return absl::OkStatus(); }

  virtual absl::Status BeginStep() = 0;
  // Collective. Around each run of forward, with backward (training) or without; a pass that failed does not end.
  virtual absl::Status BeginPass() { return absl::OkStatus(); }
  virtual void BeforeBackward(bool is_last) {}
  virtual absl::Status EndPass() { return absl::OkStatus(); }
  // Collective. Afterwards the stepped tensors' gradients are the means over all ranks.
  virtual absl::Status FinishGradients() { return absl::OkStatus(); }
  // Collective. The sum over all ranks of what only this rank counts: the local one where every rank steps everything.
  virtual absl::StatusOr<double> SumOverShards(double local) { return local; }
  // Whether this rank's gradient of what it steps enters that sum: false where another rank counts the same elements.
  virtual bool CountsInNorm(const SteppedParameter& parameter) const { return true; }
  // Collective. After the update.
  virtual absl::Status EndStep() { return absl::OkStatus(); }
  // What becomes of memory that a step, or a pass without gradients, has freed. The next one wants as much again; and
  // yet a strategy may be there to have little between steps.
  virtual PooledTensorMemory::Afterwards after_step() const { return PooledTensorMemory::Afterwards::kKeep; }
  // Not collective. After a failure anywhere between BeginStep or BeginPass and the end: back to where nothing is under
  // way.
  virtual void GiveUp() {}

  const StrategyOptions& options() const { return options_; }
  const StrategyContext& context() const { return context_; }
  const std::vector<HeldTensor>& held() const { return held_; }

 private:
  absl::Status Build(std::unique_ptr<Module> module);
  void BuildModel();
  absl::Status CheckHeld() const;
  absl::Status CompareModels() const;
  absl::Status CheckUsable() const;
  absl::StatusOr<StepResult> RunStep(absl::Span<const Batch> micro_batches, int64_t step);
  // The mean loss; afterwards gradients are complete.
  absl::StatusOr<double> ComputeGradients(absl::Span<const Batch> micro_batches);
  // Forward and backward.
  absl::StatusOr<double> RunMicroBatch(const Batch& batch, double weight, bool is_last);
  // The norm before clipping; 0 where there is no clipping.
  absl::StatusOr<double> ClipGradients();
  // Runs fn without gradients, in evaluation mode, between BeginPass and EndPass.
  template <typename Fn>
  auto Evaluate(const Fn& fn) -> decltype(fn());
  LocalState State() const;
  OwnedState Owned(const LocalState& state);

  const std::string name_;
  const StrategyOptions options_;
  const StrategyContext context_;
  PlainHooks plain_hooks_;
  std::shared_ptr<TorchModule> module_;  // shared as torch wants its modules to be; owned by this alone
  std::vector<HeldTensor> held_;
  std::unique_ptr<FusedOptimizer> optimizer_;
  absl::Status unusable_;  // why, after a load that failed half-way
  int64_t captures_ = 0;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_TORCH_STRATEGY_H_
