// FENCE: an OptimizerSpec at work: state for the boxes that a strategy holds, and steps by torch's fused kernels.
#ifndef SHARDWRIGHT_CORE_STRATEGY_FUSED_OPTIMIZER_H_
#define SHARDWRIGHT_CORE_STRATEGY_FUSED_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/module/optimizer_spec.h"
#include "shardwright/core/tensor/local_tensor.h"

namespace shardwright {

// A trainable parameter, or the box of it that this rank steps.
struct SteppedParameter {
  TensorMeta meta;    // of the whole parameter
  Box box;            // may be empty
  at::Tensor tensor;  // what `box` holds, contiguous; its grad() is the gradient, undefined: zero
};                    // all on one device

// Single-threaded. Keeps the tensors; their gradients may be replaced between steps.
class FusedOptimizer {
 public:
  // Allocates all state, zeroed, so that memory use is known from the start and there is state to load into.
  // kInvalidArgument as ValidateOptimizerSpec, and for parameters that are not floating-point.
  static absl::StatusOr<std::unique_ptr<FusedOptimizer>> Create(OptimizerSpec spec,
                                                                std::vector<SteppedParameter> parameters);

  // `step`: optimizer steps finished before, for the schedule. (How often each parameter was stepped is state.)
  absl::Status Step(int64_t step);
  // Learning rate of the first group at `step`; 0 without groups.
  double LearningRate(int64_t step) const;
  // Back to the state of a new optimizer.
  void Reset();

  const OptimizerSpec& spec() const { return spec_; }
  const std::vector<SteppedParameter>& parameters() const { return parameters_; }
  // State tensors, parameter by parameter, slot by slot. Memory stays where it is until this is destroyed.
  LocalState State() const;

 private:
  // The arguments of one kernel call: parameters of one group and dtype that have elements here.
  struct Call {
    size_t group = 0;
    std::vector<at::Tensor> parameters;
    std::vector<std::vector<at::Tensor>> state;  // by slot, in the order of OptimizerSlots
  };
  struct SlotTensor {
    TensorMeta meta;
    Box box;
    at::Tensor tensor;
  };

  FusedOptimizer(OptimizerSpec spec, std::vector<SteppedParameter> parameters);
  void AllocateState();
  // Index: parameter.
  std::vector<size_t> GroupOfEachParameter() const;
  void AddToCall(size_t group, size_t parameter, const std::vector<at::Tensor>& state);
  void Run(const Call& call, double factor);

  OptimizerSpec spec_;
  std::vector<SteppedParameter> parameters_;
  at::Tensor counts_;  // all "step" scalars are views into it, so that one addition advances them
  std::vector<SlotTensor> slots_;
  std::vector<Call> calls_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_FUSED_OPTIMIZER_H_
