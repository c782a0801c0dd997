// LoadPlan: which rank reads which bytes of which file, in which turn, with the peak of transient memory known before a
// byte moves. Pure: every rank computes the same plan.
//
// A read is a box that lies in one stored shard and is at most window_bytes long; the reader widens it to whole
// checksum chunks, verifies them and puts the box where it belongs.
#ifndef SHARDWRIGHT_CORE_PLAN_LOAD_PLAN_H_
#define SHARDWRIGHT_CORE_PLAN_LOAD_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/plan/match.h"
#include "shardwright/core/plan/placement.h"
#include "shardwright/core/plan/read_groups.h"
#include "shardwright/core/plan/shard_index.h"

namespace shardwright {

struct RankTotals {
  uint64_t bytes_read = 0;       // from files, chunks widened, inputs of derived tensors included; one pass
  uint64_t bytes_needed = 0;     // of the rank's boxes, as stored
  uint64_t transient_bytes = 0;  // peak of staging
  uint64_t reads = 0;            // groups of reads, see GroupReads
  friend bool operator==(const RankTotals&, const RankTotals&) = default;
};

// Transient memory of one rank while it loads, by use. All ranks are given the same.
struct StagingNeeds {
  uint64_t window_bytes = 0;  // what a request fetches: a window widened to checksum chunks
  uint64_t cast_bytes = 0;    // a window after conversion; 0 if no tensor is cast
  uint64_t derive_bytes = 0;  // inputs and output of the largest derived tensor
  uint64_t total() const { return window_bytes + cast_bytes + derive_bytes; }
  friend bool operator==(const StagingNeeds&, const StagingNeeds&) = default;
};

// Immutable value. Keeps the manifest alive.
class LoadPlan {
 public:
  const World& world() const { return world_; }
  const LoadOrder& order() const { return order_; }
  const std::vector<LoadTensor>& tensors() const { return tensors_; }
  const Manifest& manifest() const { return *manifest_; }

  // Sorted by file and offset. Computed on demand: a rank never builds another's list.
  std::vector<Read> ReadsOf(int32_t rank) const;
  RankTotals TotalsOf(int32_t rank) const;
  // Peak of transient memory over the ranks of a node that load at the same time.
  uint64_t NodePeakBytes(int32_t node) const;
  // The turns: ranks of each wave may read at the same time. One wave of all ranks for kConcurrent.
  std::vector<std::vector<int32_t>> Waves() const;
  // Transient bytes of one rank while it reads: the reservation that its reader makes.
  uint64_t StagingBytes() const { return staging_.total(); }
  const StagingNeeds& staging() const { return staging_; }

  // The box of a target that a rank holds, by the rule planned with.
  Box BoxOf(const LoadTensor& tensor, int32_t rank) const { return rule_(tensor.target, rank, world_.size); }
  // The stored entry of a tensor's source; null for added and derived ones.
  const TensorEntry* EntryOf(uint32_t tensor) const;
  const ShardMeta& ShardOf(const Read& read) const { return EntryOf(read.tensor)->shards[read.shard]; }
  std::vector<ReadGroup> Group(const std::vector<Read>& reads) const;

 private:
  friend absl::StatusOr<LoadPlan> PlanLoad(std::shared_ptr<const Manifest> manifest, std::vector<LoadTensor> tensors,
                                           PlacementRule rule, const World& world, const LoadOrder& order,
                                           uint64_t host_memory_budget_bytes);
  uint64_t InputBytes(const LoadTensor& tensor, uint64_t* reads) const;

  std::shared_ptr<const Manifest> manifest_;
  std::vector<LoadTensor> tensors_;
  std::shared_ptr<const std::vector<std::optional<ShardIndex>>> indexes_;  // by tensor; none for added and derived ones
  PlacementRule rule_ = nullptr;
  World world_;
  LoadOrder order_;
  StagingNeeds staging_;
};

// The reads of a whole stored tensor, in windows: for the inputs of derived tensors.
std::vector<Read> ReadsOfWhole(const TensorEntry& entry, uint64_t window_bytes);

// Elements of a piece that fits the window before and after a conversion.
int64_t WindowElements(uint64_t window_bytes, DType stored, DType target);

// kResourceExhausted naming rank or tensor, need and allowance if a node's peak exceeds the budget;
// kUnimplemented for an order that is not built; kInvalidArgument naming the tensor if a source does not fit its
// target.
absl::StatusOr<LoadPlan> PlanLoad(std::shared_ptr<const Manifest> manifest, std::vector<LoadTensor> tensors,
                                  PlacementRule rule, const World& world, const LoadOrder& order,
                                  uint64_t host_memory_budget_bytes);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_LOAD_PLAN_H_
