#include "shardwright/core/strategy/fused_optimizer.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/module/torch_module.h"

namespace shardwright {

absl::StatusOr<std::unique_ptr<FusedOptimizer>> FusedOptimizer::Create(OptimizerSpec spec,
                                                                       std::vector<SteppedParameter> parameters) {
  std::vector<std::string> names;
  for (const SteppedParameter& parameter : parameters) {
    names.push_back(parameter.meta.name);
    if (!parameter.tensor.is_floating_point()) {
      return absl::InvalidArgumentError(absl::StrCat("optimizer: parameter \"", parameter.meta.name, "\" is ",
                                                     DTypeName(parameter.meta.dtype),
                                                     ", expected a floating-point type"));
    }
  }
  SW_RETURN_IF_ERROR(ValidateOptimizerSpec(spec, names));
  std::unique_ptr<FusedOptimizer> optimizer(new FusedOptimizer(std::move(spec), std::move(parameters)));
  SW_RETURN_IF_ERROR(CallTorch([&] { optimizer->AllocateState(); })) << "allocating optimizer state";
  return optimizer;
}

FusedOptimizer::FusedOptimizer(OptimizerSpec spec, std::vector<SteppedParameter> parameters)
    : spec_(std::move(spec)), parameters_(std::move(parameters)) {}

void FusedOptimizer::AllocateState() {
  c10::NoGradGuard no_grad;
  // Kernels of a GPU read them there.
  const at::Device device = parameters_.empty() ? at::Device(at::kCPU) : parameters_.front().tensor.device();
  counts_ = at::zeros({static_cast<int64_t>(parameters_.size())}, at::TensorOptions(at::kFloat).device(device));
  const std::vector<size_t> groups = GroupOfEachParameter();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const SteppedParameter& parameter = parameters_[i];
    std::vector<at::Tensor> state;
    for (const std::string& slot : OptimizerSlots(spec_, spec_.groups[groups[i]].hyperparameters)) {
      const TensorMeta meta = OptimizerTensorMeta(parameter.meta, slot);
      const bool is_count = slot == "step";
      state.push_back(is_count ? counts_.select(0, static_cast<int64_t>(i)) : at::zeros_like(parameter.tensor));
      slots_.push_back(
          {.meta = meta, .box = is_count ? Box::Whole(meta.shape) : parameter.box, .tensor = state.back()});
    }
    if (!parameter.box.empty()) AddToCall(groups[i], i, state);
  }
}

std::vector<size_t> FusedOptimizer::GroupOfEachParameter() const {
  absl::flat_hash_map<absl::string_view, size_t> group_of;
  for (size_t group = 0; group < spec_.groups.size(); ++group) {
    for (const std::string& name : spec_.groups[group].parameters) group_of[name] = group;
  }
  std::vector<size_t> groups;
  for (const SteppedParameter& parameter : parameters_) groups.push_back(group_of.at(parameter.meta.name));
  return groups;
}

void FusedOptimizer::AddToCall(size_t group, size_t parameter, const std::vector<at::Tensor>& state) {
  const at::Tensor& tensor = parameters_[parameter].tensor;
  Call* call = nullptr;
  for (Call& known : calls_) {
    const at::Tensor& first = known.parameters.front();
    if (known.group == group && first.scalar_type() == tensor.scalar_type() && first.device() == tensor.device()) {
      call = &known;
    }
  }
  if (call == nullptr) {
    call = &calls_.emplace_back();
    call->group = group;
    call->state.resize(state.size());
  }
  call->parameters.push_back(tensor);
  for (size_t slot = 0; slot < state.size(); ++slot) call->state[slot].push_back(state[slot]);
}

absl::Status FusedOptimizer::Step(int64_t step) {
  return CallTorch([&] {
    c10::NoGradGuard no_grad;
    counts_.add_(1);
    const double factor = ScheduleFactor(spec_.schedule, step);
    for (const Call& call : calls_) Run(call, factor);
  });
}

void FusedOptimizer::Run(const Call& call, double factor) {
  const OptimizerHyperparameters& h = spec_.groups[call.group].hyperparameters;
  const double rate = h.learning_rate * factor;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : call.parameters) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter));
  }
  switch (spec_.kind) {
    case OptimizerKind::kAdamW:
      at::_fused_adamw_(call.parameters, gradients, call.state[0], call.state[1], /*max_exp_avg_sqs=*/{}, call.state[2],
                        rate, h.beta1, h.beta2, h.weight_decay, h.epsilon, /*amsgrad=*/false, /*maximize=*/false);
      return;
    case OptimizerKind::kAdam:
      at::_fused_adam_(call.parameters, gradients, call.state[0], call.state[1], /*max_exp_avg_sqs=*/{}, call.state[2],
                       rate, h.beta1, h.beta2, h.weight_decay, h.epsilon, /*amsgrad=*/false, /*maximize=*/false);
      return;
    case OptimizerKind::kSgd:
      // A momentum buffer of zeros makes the first step like any other.
      at::_fused_sgd_(call.parameters, gradients, call.state.empty() ? std::vector<at::Tensor>() : call.state[0],
                      h.weight_decay, h.momentum, rate, /*dampening=*/0, h.nesterov, /*maximize=*/false,
                      /*is_first_step=*/false);
      return;
  }
  SW_CHECK(false);
}

double FusedOptimizer::LearningRate(int64_t step) const {
  if (spec_.groups.empty()) return 0;
  return spec_.groups.front().hyperparameters.learning_rate * ScheduleFactor(spec_.schedule, step);
}

void FusedOptimizer::Reset() {
  c10::NoGradGuard no_grad;
  for (SlotTensor& slot : slots_) slot.tensor.zero_();
}

LocalState FusedOptimizer::State() const {
  LocalState state;
  for (const SlotTensor& slot : slots_) state.push_back(ToLocalTensor(slot.meta, slot.box, slot.tensor));
  return state;
}

}  // namespace shardwright
