#include "shardwright/core/strategy/gradient_buckets.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/module/torch_module.h"

namespace shardwright {

GradientBuckets::GradientBuckets(const std::vector<at::Tensor>& parameters, uint64_t bucket_bytes,
                                 GradientWatch::Tells starts, Communicator& comm)
    : comm_(comm),
      buckets_(MakeBuckets(parameters, bucket_bytes)),
      watch_(Watched(buckets_), starts, [this](size_t bucket) { Start(buckets_[bucket]); }) {}

GradientBuckets::~GradientBuckets() {
  for (Bucket& bucket : buckets_) {
    for (Slot& slot : bucket.slots) slot.parameter.mutable_grad().reset();
  }
}

std::vector<GradientBuckets::Bucket> GradientBuckets::MakeBuckets(const std::vector<at::Tensor>& parameters,
                                                                  uint64_t bucket_bytes) {
  c10::NoGradGuard no_grad;
  std::vector<Bucket> buckets;
  for (const std::vector<size_t>& group : GroupInReverse(parameters, bucket_bytes)) {
    int64_t elements = 0;
    for (const size_t i : group) elements += parameters[i].numel();
    Bucket& bucket = buckets.emplace_back();
    bucket.flat = at::zeros({elements}, parameters[group.front()].options().requires_grad(false));
    int64_t begin = 0;
    for (const size_t i : group) {
      const at::Tensor& parameter = parameters[i];
      SW_CHECK(parameter.is_contiguous());
      const at::Tensor view = bucket.flat.narrow(0, begin, parameter.numel()).view(parameter.sizes());
      parameter.mutable_grad() = view;
      bucket.slots.push_back({.parameter = parameter, .view = view});
      begin += parameter.numel();
    }
  }
  return buckets;
}

std::vector<std::vector<at::Tensor>> GradientBuckets::Watched(const std::vector<Bucket>& buckets) {
  std::vector<std::vector<at::Tensor>> groups;
  for (const Bucket& bucket : buckets) {
    groups.emplace_back();
    for (const Slot& slot : bucket.slots) groups.back().push_back(slot.parameter);
  }
  return groups;
}

void GradientBuckets::Zero() {
  c10::NoGradGuard no_grad;
  for (Bucket& bucket : buckets_) {
    bucket.work.reset();  // of a step that was given up
    bucket.flat.zero_();
    for (Slot& slot : bucket.slots) slot.parameter.mutable_grad() = slot.view;
  }
  watch_.Begin();
  first_error_ = absl::OkStatus();
}

void GradientBuckets::Start(Bucket& bucket) {
  c10::NoGradGuard no_grad;
  for (Slot& slot : bucket.slots) {
    at::Tensor& gradient = slot.parameter.mutable_grad();
    if (gradient.is_same(slot.view)) continue;
    // The model replaced it (its own zero_grad): bring it home.
    if (gradient.defined()) slot.view.copy_(gradient);
    gradient = slot.view;
  }
  if (!first_error_.ok()) return;
  auto work = comm_.AllReduceAsync(bucket.flat.mutable_data_ptr(), bucket.flat.numel(),
                                   ToDType(bucket.flat.scalar_type()), ReduceOp::kSum);
  first_error_.Update(work.status());
  if (work.ok()) bucket.work = *std::move(work);
}

absl::Status GradientBuckets::Finish() {
  watch_.Finish();
  if (watch_.grew_late()) {
    first_error_.Update(absl::InternalError("a parameter's gradient was accumulated twice in one backward"));
  }
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
