#include "shardwright/core/strategy/gradient_buckets.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <utility>

#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/module/torch_module.h"

namespace shardwright {

// Runs on the thread of backward, right after a parameter's gradient was accumulated.
class GradientBuckets::CompletionHook : public torch::autograd::FunctionPostHook {
 public:
  CompletionHook(GradientBuckets& buckets, size_t slot) : buckets_(buckets), slot_(slot) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& inputs) override {
    buckets_.OnAccumulated(slot_);
    return outputs;
  }

 private:
  GradientBuckets& buckets_;
  size_t slot_;
};

GradientBuckets::GradientBuckets(const std::vector<at::Tensor>& parameters, uint64_t bucket_bytes, Communicator& comm)
    : comm_(comm) {
  FillBuckets(parameters, bucket_bytes);
  AddHooks();
}

GradientBuckets::~GradientBuckets() {
  for (Slot& slot : slots_) slot.parameter.mutable_grad().reset();
}

void GradientBuckets::FillBuckets(const std::vector<at::Tensor>& parameters, uint64_t bucket_bytes) {
  std::map<at::ScalarType, size_t> open;  // the bucket that a dtype is filling
  std::vector<int64_t> elements;          // of each bucket
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    SW_CHECK(parameter->requires_grad() && parameter->is_leaf() && parameter->is_contiguous());
    const uint64_t item_bytes = parameter->element_size();
    auto bucket = open.find(parameter->scalar_type());
    if (bucket == open.end() || (elements[bucket->second] + parameter->numel()) * item_bytes > bucket_bytes) {
      bucket = open.insert_or_assign(parameter->scalar_type(), buckets_.size()).first;
      buckets_.emplace_back();
      elements.push_back(0);
    }
    slots_.push_back({.parameter = *parameter, .view = {}, .bucket = bucket->second});
    elements[bucket->second] += parameter->numel();
    ++buckets_[bucket->second].parameters;
  }
  MakeViews(elements);
}

void GradientBuckets::MakeViews(const std::vector<int64_t>& elements) {
  c10::NoGradGuard no_grad;
  std::vector<int64_t> filled(buckets_.size(), 0);
  for (Slot& slot : slots_) {
    at::Tensor& flat = buckets_[slot.bucket].flat;
    if (!flat.defined()) flat = at::zeros({elements[slot.bucket]}, slot.parameter.options().requires_grad(false));
    slot.view = flat.narrow(0, filled[slot.bucket], slot.parameter.numel()).view(slot.parameter.sizes());
    filled[slot.bucket] += slot.parameter.numel();
    slot.parameter.mutable_grad() = slot.view;
  }
}

void GradientBuckets::AddHooks() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(slots_[i].parameter);
    accumulator->add_post_hook(std::make_unique<CompletionHook>(*this, i));
    accumulators_.push_back(std::move(accumulator));
  }
}

void GradientBuckets::Zero() {
  c10::NoGradGuard no_grad;
  for (Bucket& bucket : buckets_) {
    bucket.work.reset();  // of a step that was given up
    bucket.flat.zero_();
    bucket.incomplete = bucket.parameters;
  }
  for (Slot& slot : slots_) {
    slot.complete = false;
    slot.parameter.mutable_grad() = slot.view;
  }
  armed_ = false;
  next_bucket_ = 0;
  started_in_backward_ = 0;
  first_error_ = absl::OkStatus();
}

void GradientBuckets::Arm() {
  armed_ = true;
}

void GradientBuckets::OnAccumulated(size_t slot) {
  if (!armed_) return;
  if (slots_[slot].complete) {
    first_error_.Update(absl::InternalError("a parameter's gradient was accumulated twice in one backward"));
    return;
  }
  Complete(slots_[slot]);
  StartCompleteBuckets();
  started_in_backward_ = static_cast<int64_t>(next_bucket_);
}

void GradientBuckets::Complete(Slot& slot) {
  slot.complete = true;
  --buckets_[slot.bucket].incomplete;
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (gradient.is_same(slot.view)) return;
  // The model replaced it (its own zero_grad): bring it home.
  c10::NoGradGuard no_grad;
  if (gradient.defined()) slot.view.copy_(gradient);
  gradient = slot.view;
}

void GradientBuckets::StartCompleteBuckets() {
  for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].incomplete == 0; ++next_bucket_) {
    Bucket& bucket = buckets_[next_bucket_];
    if (!first_error_.ok()) continue;
    auto work = comm_.AllReduceAsync(bucket.flat.mutable_data_ptr(), bucket.flat.numel(),
                                     ToDType(bucket.flat.scalar_type()), ReduceOp::kSum);
    first_error_.Update(work.status());
    if (work.ok()) bucket.work = *std::move(work);
  }
}

absl::Status GradientBuckets::Finish() {
  SW_CHECK(armed_);
  for (Slot& slot : slots_) {
    if (!slot.complete) Complete(slot);
  }
  StartCompleteBuckets();
  armed_ = false;
  c10::NoGradGuard no_grad;
  for (Bucket& bucket : buckets_) {
    if (bucket.work == nullptr) continue;
    first_error_.Update(bucket.work->Wait());
    bucket.work.reset();
    if (first_error_.ok()) bucket.flat.div_(comm_.size());
  }
  return first_error_;
}

uint64_t GradientBuckets::bytes() const {
  uint64_t bytes = 0;
  for (const Bucket& bucket : buckets_) bytes += bucket.flat.nbytes();
  return bytes;
}

}  // namespace shardwright
