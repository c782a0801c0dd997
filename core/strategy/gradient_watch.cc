#include "shardwright/core/strategy/gradient_watch.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <memory>
#include <utility>

#include "shardwright/core/base/check.h"

namespace shardwright {

std::vector<std::vector<size_t>> GroupInReverse(const std::vector<at::Tensor>& parameters, uint64_t group_bytes) {
  std::vector<std::vector<size_t>> groups;
  std::vector<uint64_t> bytes;            // of each group
  std::map<at::ScalarType, size_t> open;  // the group that a dtype is filling
  for (size_t i = parameters.size(); i-- > 0;) {
    const at::Tensor& parameter = parameters[i];
    const uint64_t its_bytes = parameter.element_size() * static_cast<uint64_t>(parameter.numel());
    auto group = open.find(parameter.scalar_type());
    if (group == open.end() || bytes[group->second] + its_bytes > group_bytes) {
      group = open.insert_or_assign(parameter.scalar_type(), groups.size()).first;
      groups.emplace_back();
      bytes.push_back(0);
    }
    groups[group->second].push_back(i);
    bytes[group->second] += its_bytes;
  }
  return groups;
}

// Runs on the thread of backward, right after a parameter's gradient was accumulated.
class GradientWatch::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(GradientWatch& watch, size_t parameter) : watch_(watch), parameter_(parameter) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& inputs) override {
    watch_.OnAccumulated(parameter_);
    return outputs;
  }

 private:
  GradientWatch& watch_;
  size_t parameter_;
};

GradientWatch::GradientWatch(const std::vector<std::vector<at::Tensor>>& groups, Tells tells, OnComplete on_complete)
    : tells_(tells), on_complete_(std::move(on_complete)) {
  for (const std::vector<at::Tensor>& group : groups) {
    for (const at::Tensor& parameter : group) {
      SW_CHECK(parameter.requires_grad() && parameter.is_leaf());
      auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
      accumulator->add_post_hook(std::make_unique<Hook>(*this, parameters_.size()));
      accumulators_.push_back(std::move(accumulator));
      parameters_.push_back({.group = groups_.size()});
    }
    groups_.push_back({.parameters = static_cast<int64_t>(group.size())});
  }
}

void GradientWatch::Begin() {
  for (Parameter& parameter : parameters_) parameter.complete = false;
  for (Group& group : groups_) group.incomplete = group.parameters;
  armed_ = false;
  grew_late_ = false;
  next_group_ = 0;
  completed_in_backward_ = 0;
}

void GradientWatch::OnAccumulated(size_t index) {
  if (!armed_ || tells_ == Tells::kAtFinish) return;
  Parameter& parameter = parameters_[index];
  if (parameter.complete) {
    grew_late_ = true;
    return;
  }
  parameter.complete = true;
  --groups_[parameter.group].incomplete;
  TellComplete();
  completed_in_backward_ = next_group_;
}

void GradientWatch::TellComplete() {
  while (next_group_ < groups_.size() && groups_[next_group_].incomplete == 0) on_complete_(next_group_++);
}

void GradientWatch::Finish() {
  SW_CHECK(armed_);
  armed_ = false;
  for (Group& group : groups_) group.incomplete = 0;
  TellComplete();
}

}  // namespace shardwright
