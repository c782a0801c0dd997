// Finds the stored shards that a box of a tensor overlaps, without looking at all of them.
#ifndef SHARDWRIGHT_CORE_PLAN_SHARD_INDEX_H_
#define SHARDWRIGHT_CORE_PLAN_SHARD_INDEX_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "shardwright/core/manifest/manifest.h"

namespace shardwright {

// Immutable. Borrows the entry, which must have shards of its own (not be an alias).
class ShardIndex {
 public:
  explicit ShardIndex(const TensorEntry& entry);

  const TensorEntry& entry() const { return *entry_; }
  // Visits every shard that shares elements with `box`: its number and the common part.
  void ForEachOverlap(const Box& box, absl::FunctionRef<void(uint32_t shard, const Box& common)> fn) const;

 private:
  const TensorEntry* entry_;  // Not owned.
  // Shards by where they begin in dimension_; empty for tensors of few shards, which are simply scanned.
  int dimension_ = 0;
  std::vector<uint32_t> order_;
  std::vector<int64_t> ends_;  // greatest end in dimension_ of the shards up to here in order_
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_SHARD_INDEX_H_
