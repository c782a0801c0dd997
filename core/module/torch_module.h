// FENCE: what a model's author writes: a torch::nn::Module with the steps and hooks that training needs.
//
//   class Ours : public TorchModule {
//     void ConfigureShardedModel(Units& units) override {
//       block_ = units.Wrap<Block>(register_module("block", Block(config_)));
//     }
//     OptimizerSpec ConfigureOptimizers() override { ... }
//     at::Tensor TrainingStep(const Batch& batch) override { return loss; }
//   };
//
// Layers are built in host memory; each unit's parameters and buffers move to the device that the strategy computes on
// as soon as it is wrapped, the rest once the model is built. Other tensors are the author's to make where the inputs
// are.
//
// Exceptions of torch are caught at the fence (CallTorch) and become a Status.
#ifndef SHARDWRIGHT_CORE_MODULE_TORCH_MODULE_H_
#define SHARDWRIGHT_CORE_MODULE_TORCH_MODULE_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/core/device/device.h"
#include "shardwright/core/module/module.h"
#include "shardwright/core/module/optimizer_spec.h"
#include "shardwright/core/module/units.h"
#include "shardwright/core/tensor/local_tensor.h"

namespace shardwright {

class TorchModule : public Module, public torch::nn::Module {
 public:
  // Builds the layers. Called once, by the strategy, after the random generator is seeded; also when a module is built
  // from a checkpoint.
  virtual void ConfigureShardedModel(Units& units) = 0;
  virtual OptimizerSpec ConfigureOptimizers() = 0;
  // The mean loss over the batch, to be differentiated.
  virtual at::Tensor TrainingStep(const Batch& batch) = 0;
  // Named metrics, means over the batch. By default the training loss as "val_loss".
  virtual std::map<std::string, double> ValidationStep(const Batch& batch);
};

// A parameter or buffer with its tensor.
struct NamedTorchTensor {
  TensorMeta meta;
  at::Tensor tensor;
  std::string
      alias_of;  // not empty: the same parameter under a second name; the first in registration order is the true one
};

// Parameters, then buffers, in registration order. Aliases are known by identity of the parameter, never by address, so
// that empty tensors are never taken for tied ones.
std::vector<NamedTorchTensor> NamedTensors(torch::nn::Module& module);

// Moves parameters and buffers that are elsewhere to `device`, each in place: whoever holds one sees it there, tied
// ones stay tied. Throws as torch does.
void MoveToDevice(torch::nn::Module& module, const Device& device);

// The module as a strategy sees it; SW_CHECKs that it is a TorchModule.
TorchModule& AsTorchModule(Module& module);

// Evaluation mode (no dropout) while it lives; then the mode from before.
class EvalMode {
 public:
  explicit EvalMode(torch::nn::Module& module) : module_(module), was_training_(module.is_training()) { module.eval(); }
  ~EvalMode() { module_.train(was_training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

DType ToDType(at::ScalarType type);        // kInvalid for types that we lack
at::ScalarType ToScalarType(DType dtype);  // Undefined for kInvalid

// A contiguous tensor as LocalTensor holding `box`.
LocalTensor ToLocalTensor(const TensorMeta& meta, const Box& box, const at::Tensor& tensor);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_TORCH_MODULE_H_
