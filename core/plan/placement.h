// Placement: which box of each tensor each rank holds. Pure functions of metadata, role and world, so that strategies,
// the planner and the torch-free `plan` verb agree without asking each other.
#ifndef SHARDWRIGHT_CORE_PLAN_PLACEMENT_H_
#define SHARDWRIGHT_CORE_PLAN_PLACEMENT_H_

#include <cstdint>

#include "shardwright/core/base/table.h"
#include "shardwright/core/manifest/tensor_meta.h"

namespace shardwright {

// The ranks of a run. Nodes hold consecutive ranks.
struct World {
  int32_t size = 1;
  int32_t ranks_per_node = 1;
  int32_t NodeOf(int32_t rank) const { return rank / ranks_per_node; }
  int32_t nodes() const { return (size + ranks_per_node - 1) / ranks_per_node; }
  friend bool operator==(const World&, const World&) = default;
};

// The box of `tensor` that `rank` of `world_size` holds; empty boxes are legal.
using PlacementRule = Box (*)(const TensorMeta& tensor, int32_t rank, int32_t world_size);

// Every rank holds all of it.
Box ReplicatedBox(const TensorMeta& tensor, int32_t rank, int32_t world_size);
// Rows [n*rank/world, n*(rank+1)/world) of dimension 0: sizes differ by at most one row. Scalars: whole on every rank.
Box RowShardBox(const TensorMeta& tensor, int32_t rank, int32_t world_size);

// By strategy name: single_device, ddp (all replicated); zero1, zero2 (optimizer state by rows);
// zero3 (parameters and optimizer state by rows, buffers replicated).
const Table<PlacementRule>& PlacementRules();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_PLACEMENT_H_
