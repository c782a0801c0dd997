#include "shardwright/core/module/recompute.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <string>
#include <utility>

#include "shardwright/core/manifest/value.h"
#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/module/torch_device.h"
#include "shardwright/core/module/torch_random.h"

namespace shardwright {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Sets the random state and brings back the one from before.
class RandomStateGuard {
 public:
  RandomStateGuard(const Value::Map& state, const Device& device) : device_(device), before_(TorchRandomState(device)) {
    ThrowIfError(SetTorchRandomState(state, device));
  }
  ~RandomStateGuard() { SetTorchRandomState(before_, device_).IgnoreError(); }
  RandomStateGuard(const RandomStateGuard&) = delete;
  RandomStateGuard& operator=(const RandomStateGuard&) = delete;

 private:
  const Device device_;
  const Value::Map before_;
};

// What ThreadLocalState leaves out of a thread's autocast. Copies of weights that were cached while activations are
// computed again would still be taken for the weights a step later.
class AutocastCacheGuard {
 public:
  explicit AutocastCacheGuard(bool enabled) : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(enabled);
  }
  ~AutocastCacheGuard() { at::autocast::set_autocast_cache_enabled(before_); }
  AutocastCacheGuard(const AutocastCacheGuard&) = delete;
  AutocastCacheGuard& operator=(const AutocastCacheGuard&) = delete;

 private:
  const bool before_;
};

// Whose generator `fn` may draw from.
Device DeviceOf(const std::vector<at::Tensor>& inputs) {
  for (const at::Tensor& input : inputs) {
    if (!input.is_cpu()) return ToDevice(input.device());
  }
  return {};
}

class RecomputeNode : public torch::autograd::Node {
 public:
  RecomputeNode(TensorFunction fn, const std::vector<at::Tensor>& inputs)
      : fn_(std::move(fn)), device_(DeviceOf(inputs)), random_state_(TorchRandomState(device_)) {
    for (const at::Tensor& input : inputs) inputs_.emplace_back(input, /*is_output=*/false);
  }

  std::string name() const override { return "Recompute"; }
  void release_variables() override {
    inputs_.clear();
    fn_ = nullptr;
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list inputs = UnpackInputs();
    variable_list outputs, wanted;
    Run(inputs, gradients, outputs, wanted);
    if (!outputs.empty()) torch::autograd::backward(outputs, wanted);
    variable_list results;
    for (const at::Tensor& input : inputs) results.push_back(input.grad());
    return results;
  }

 private:
  // Leaves, so that the inner backward ends at them.
  variable_list UnpackInputs() {
    variable_list inputs;
    for (const SavedVariable& saved : inputs_) {
      const at::Tensor input = saved.unpack();
      inputs.push_back(input.detach());
      if (input.requires_grad()) inputs.back().requires_grad_(true);
    }
    return inputs;
  }

  // Outputs that have a gradient, with it.
  void Run(const variable_list& inputs, const variable_list& gradients, variable_list& outputs, variable_list& wanted) {
    const RandomStateGuard random(random_state_, device_);
    const at::ThreadLocalStateGuard forward_state(state_);
    const AutocastCacheGuard autocast_cache(caches_casts_);
    const variable_list all = fn_(inputs);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!gradients[i].defined() || !all[i].requires_grad()) continue;
      outputs.push_back(all[i]);
      wanted.push_back(gradients[i]);
    }
  }

  TensorFunction fn_;
  std::vector<SavedVariable> inputs_;
  // Of forward. Backward may run on another thread: a GPU's.
  const Device device_;
  const Value::Map random_state_;
  const at::ThreadLocalState state_;  // autocast, gradients wanted
  const bool caches_casts_ = at::autocast::is_autocast_cache_enabled();
};

}  // namespace

std::vector<at::Tensor> Recompute(const TensorFunction& fn, const std::vector<at::Tensor>& inputs) {
  if (!c10::GradMode::is_enabled()) return fn(inputs);
  const auto node = c10::make_intrusive<RecomputeNode>(fn, inputs);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  std::vector<at::Tensor> outputs;
  {
    c10::NoGradGuard no_grad;
    // Detached: an output may be an input.
    for (const at::Tensor& output : fn(inputs)) outputs.push_back(output.detach());
  }
  for (const at::Tensor& output : outputs) {
    // What has no gradient (integers) keeps its place all the same.
    const bool differentiable = torch::autograd::isDifferentiableType(output.scalar_type());
    torch::autograd::set_history(differentiable ? output : at::Tensor(), node);
  }
  return outputs;
}

}  // namespace shardwright
