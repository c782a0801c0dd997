// LoadPlan: which rank reads which bytes of which file, in which turn, with the peak of transient memory known before a
// byte moves. Pure: every rank computes the same plan.
//
// A read is a box that lies in one stored shard and is at most window_bytes long; the reader widens it to whole checksum
// chunks, verifies them and puts the box where it belongs.
#ifndef SHARDWRIGHT_CORE_PLAN_LOAD_PLAN_H_
#define SHARDWRIGHT_CORE_PLAN_LOAD_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/plan/match.h"
#include "shardwright/core/plan/placement.h"

namespace shardwright {

// `box` is stored in shard `shard` of the source tensor. The bytes [offset, offset + length) of the file hold it: exactly,
// if `contiguous`; else with other elements in between (a column slice).
struct Read {
  uint32_t tensor = 0;  // index into LoadPlan::tensors()
  uint32_t shard = 0;   // index into the source's TensorEntry::shards
  Box box;              // in coordinates of the tensor
  uint32_t file = 0;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  bool contiguous = true;
  friend bool operator==(const Read&, const Read&) = default;
};

struct RankTotals {
  uint64_t bytes_read = 0;      // from files, chunks widened
  uint64_t bytes_needed = 0;    // of the rank's boxes
  uint64_t transient_bytes = 0; // peak of staging
  uint64_t reads = 0;
  friend bool operator==(const RankTotals&, const RankTotals&) = default;
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
  uint64_t StagingBytes() const;

 private:
  friend absl::StatusOr<LoadPlan> PlanLoad(std::shared_ptr<const Manifest> manifest, std::vector<LoadTensor> tensors,
                                           PlacementRule rule, const World& world, const LoadOrder& order,
                                           uint64_t host_memory_budget_bytes);
  std::shared_ptr<const Manifest> manifest_;
  std::vector<LoadTensor> tensors_;
  PlacementRule rule_ = nullptr;
  World world_;
  LoadOrder order_;
};

// kResourceExhausted naming rank or tensor, need and allowance if a node's peak exceeds the budget;
// kUnimplemented for an order that is not built.
absl::StatusOr<LoadPlan> PlanLoad(std::shared_ptr<const Manifest> manifest, std::vector<LoadTensor> tensors,
                                  PlacementRule rule, const World& world, const LoadOrder& order,
                                  uint64_t host_memory_budget_bytes);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_LOAD_PLAN_H_
