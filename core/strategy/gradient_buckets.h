// FENCE: gradients in flat buckets, all-reduced while backward is still running: every rank then has all of them.
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

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/strategy/gradient_watch.h"

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
  // this. A bucket holds at most `bucket_bytes`, or one larger parameter. `starts`: when reductions do.
  GradientBuckets(const std::vector<at::Tensor>& parameters, uint64_t bucket_bytes, GradientWatch::Tells starts,
                  Communicator& comm);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Before the first backward of a step. (torch's zero_grad would take the gradients out of the buckets.)
  void Zero();
  // Before the last backward of a step: the next accumulation of each parameter completes its gradient.
  void Arm() { watch_.Arm(); }
  // Collective. After it: parameters that this backward did not reach are complete as they are, the rest of the buckets
  // is reduced, and sums become means. The first error of any reduction.
  absl::Status Finish();

  int64_t count() const { return static_cast<int64_t>(buckets_.size()); }
  // Reductions of the last step that started inside backward.
  int64_t started_in_backward() const { return static_cast<int64_t>(watch_.completed_in_backward()); }
  uint64_t bytes() const;

 private:
  struct Slot {
    at::Tensor parameter;
    at::Tensor view;  // into the bucket's flat tensor
  };
  struct Bucket {
    std::vector<Slot> slots;
    at::Tensor flat;
    std::unique_ptr<Work> work;
  };

  static std::vector<Bucket> MakeBuckets(const std::vector<at::Tensor>& parameters, uint64_t bucket_bytes);
  static std::vector<std::vector<at::Tensor>> Watched(const std::vector<Bucket>& buckets);
  void Start(Bucket& bucket);

  Communicator& comm_;
  std::vector<Bucket> buckets_;
  GradientWatch watch_;
  absl::Status first_error_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_GRADIENT_BUCKETS_H_
