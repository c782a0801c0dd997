// FENCE: gradients in flat buckets, reduced over the ranks while backward is still running. Shared by the strategies
// that replicate parameters.
//
// Backward reaches parameters about in reverse order of registration, so buckets are filled in that order: the first
// one is complete, and its reduction under way, while the layers before it are still computing.
//
//   registered:   embedding  block 0  block 1  head
//   bucket 0:     [ head | block 1 ]        one tensor per dtype; each gradient is a view into it
//   bucket 1:     [ block 0 | embedding ]
#ifndef SHARDWRIGHT_CORE_STRATEGY_GRADIENT_BUCKETS_H_
#define SHARDWRIGHT_CORE_STRATEGY_GRADIENT_BUCKETS_H_

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "shardwright/core/comm/communicator.h"

namespace torch::autograd {
struct Node;
}

namespace shardwright {

// Not movable: hooks of the parameters point here. Outlives every backward over its parameters. All calls, backward
// included, come from one thread, which is the one that uses the communicator; buckets are reduced strictly in their
// order, so that collectives match on all ranks even where ranks use different parameters.
//
//   buckets.Zero();
//   for (...) { if (last) buckets.Arm(); loss.backward(); }
//   SW_RETURN_IF_ERROR(buckets.Finish());     // gradients are means over the ranks now
class GradientBuckets {
 public:
  // `parameters` require gradients, are contiguous and in order of registration; each stands once. `comm` outlives
  // this. A bucket holds at most `bucket_bytes`, or one larger parameter.
  GradientBuckets(const std::vector<at::Tensor>& parameters, uint64_t bucket_bytes, Communicator& comm);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Before the first backward of a step. (torch's zero_grad would take the gradients out of the buckets.)
  void Zero();
  // Before the last backward of a step: the next accumulation of each parameter completes its gradient.
  void Arm();
  // Collective. After it: parameters that this backward did not reach are complete as they are, the rest of the buckets
  // is reduced, and sums become means. The first error of any reduction.
  absl::Status Finish();

  int64_t count() const { return static_cast<int64_t>(buckets_.size()); }
  // Reductions of the last step that started inside backward.
  int64_t started_in_backward() const { return started_in_backward_; }
  uint64_t bytes() const;

 private:
  class CompletionHook;
  struct Slot {
    at::Tensor parameter;
    at::Tensor view;  // into the bucket's flat tensor
    size_t bucket = 0;
    bool complete = false;
  };
  struct Bucket {
    at::Tensor flat;
    int64_t parameters = 0;
    int64_t incomplete = 0;
    std::unique_ptr<Work> work;
  };

  void FillBuckets(const std::vector<at::Tensor>& parameters, uint64_t bucket_bytes);
  void MakeViews(const std::vector<int64_t>& elements);
  void AddHooks();
  void OnAccumulated(size_t slot);
  void Complete(Slot& slot);
  void StartCompleteBuckets();

  Communicator& comm_;
  std::vector<Slot> slots_;  // in order of the buckets
  std::vector<Bucket> buckets_;
  std::vector<c10::intrusive_ptr<torch::autograd::Node>>
      accumulators_;  // parameters hold them weakly: kept alive for their hooks
  bool armed_ = false;
  size_t next_bucket_ = 0;  // the first that is not being reduced
  int64_t started_in_backward_ = 0;
  absl::Status first_error_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_GRADIENT_BUCKETS_H_
