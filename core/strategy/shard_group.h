// FENCE: parameters whose rows are spread over the ranks, gathered and reduced together: a unit's under zero3, a
// bucket's where only optimizer state and gradients are sharded.
//
// One collective a group: shards travel in a flat buffer (ShardLayout) and are copied between it and the parameters,
// for a rank's rows of many parameters are not contiguous in any layout that autograd could use.
#ifndef SHARDWRIGHT_CORE_STRATEGY_SHARD_GROUP_H_
#define SHARDWRIGHT_CORE_STRATEGY_SHARD_GROUP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/manifest/tensor_meta.h"
#include "shardwright/core/plan/shard_layout.h"

namespace shardwright {

struct ShardedParameter {
  TensorMeta meta;   // as it is stored
  at::Tensor full;   // the module's parameter: contiguous, alone in its storage, of the dtype that is computed in
  at::Tensor shard;  // this rank's rows, contiguous, of the stored dtype; may be a view of `full`
};

// The rows of `tensor` that `box` (RowShardBox's) has: a view without gradients, of the same memory.
at::Tensor RowsOfTensor(const at::Tensor& tensor, const Box& box);
// Whether `tensor` can be the full parameter of a group: kInvalidArgument with the reason.
absl::Status CheckShardable(const at::Tensor& tensor);
// The memory of a parameter is returned, its shape and what autograd saved of it stay.
void FreeStorage(const at::Tensor& tensor);
// A tensor of this shape that has no memory yet, like one whose memory was freed.
at::Tensor WithoutMemory(at::IntArrayRef sizes, const at::TensorOptions& options);

// Single-threaded; calls are collective unless they say otherwise, and throw as torch does where memory is short. All
// parameters are of one dtype and all trainable or none. At most one gather and one reduction are under way; they may
// overlap with other groups' as long as every rank starts all of them in one order.
class ShardGroup {
 public:
  // `comm` outlives this.
  ShardGroup(std::vector<ShardedParameter> parameters, Communicator& comm);
  ~ShardGroup();
  ShardGroup(const ShardGroup&) = delete;
  ShardGroup& operator=(const ShardGroup&) = delete;

  // Whole parameters, from shards. Start does nothing if it is under way or they are there.
  absl::Status StartGather();
  absl::Status FinishGather();
  // Not collective. Forgets the whole parameters, their memory and a gather under way.
  void Free();
  // Not collective. The whole parameters stay in memory, yet are out of date.
  void Invalidate() { gathered_ = false; }

  // Not collective. Gradients of the shards are zero; a reduction under way is forgotten.
  void ZeroGradients();
  // Takes the whole parameters' gradients (undefined: zero) away from them and sums them over the ranks.
  absl::Status StartReduce();
  // Adds the sums to the gradients of the shards.
  absl::Status FinishReduce();
  // Not collective. Sums over ranks become means.
  void MeanGradients();
  // Not collective. Returns the gradients' memory.
  void DropGradients();

  bool trainable() const { return parameters_.front().meta.trainable; }
  const std::vector<ShardedParameter>& parameters() const { return parameters_; }
  // Of all whole parameters.
  uint64_t full_bytes() const;

 private:
  at::Tensor MakeFlat(at::ScalarType dtype) const;

  const std::vector<ShardedParameter> parameters_;
  Communicator& comm_;
  const ShardLayout layout_;
  bool gathered_ = false;
  at::Tensor gathering_;  // the flat buffer of the gather under way
  std::unique_ptr<Work> gather_;
  at::Tensor reducing_;
  std::unique_ptr<Work> reduction_;
  at::Tensor gradients_;  // of this rank's shards, one after the other
};

// Groups by (dtype, trainable), in order of first appearance.
std::vector<std::unique_ptr<ShardGroup>> MakeShardGroups(const std::vector<ShardedParameter>& parameters,
                                                         Communicator& comm);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_SHARD_GROUP_H_
