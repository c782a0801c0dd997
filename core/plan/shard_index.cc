#include "shardwright/core/plan/shard_index.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/container/flat_hash_set.h"

namespace shardwright {
namespace {

constexpr size_t kScannedShards = 8;

// The dimension in which the most shards begin at places of their own.
int MostDistinctDimension(const TensorEntry& entry) {
  int best = 0;
  size_t most = 0;
  for (int d = 0; d < static_cast<int>(entry.meta.shape.size()); ++d) {
    absl::flat_hash_set<int64_t> begins;
    for (const ShardMeta& shard : entry.shards) begins.insert(shard.box.offset[d]);
    if (begins.size() > most) {
      most = begins.size();
      best = d;
    }
  }
  return best;
}

}  // namespace

ShardIndex::ShardIndex(const TensorEntry& entry) : entry_(&entry) {
  if (entry.shards.size() <= kScannedShards || entry.meta.shape.empty()) return;
  dimension_ = MostDistinctDimension(entry);
  order_.resize(entry.shards.size());
  std::iota(order_.begin(), order_.end(), 0u);
  const auto begin_of = [&](uint32_t shard) { return entry.shards[shard].box.offset[dimension_]; };
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) { return begin_of(a) < begin_of(b); });
  int64_t end = 0;
  for (uint32_t shard : order_) {
    end = std::max(end, begin_of(shard) + entry.shards[shard].box.size[dimension_]);
    ends_.push_back(end);
  }
}

void ShardIndex::ForEachOverlap(const Box& box, absl::FunctionRef<void(uint32_t, const Box&)> fn) const {
  const auto visit = [&](uint32_t shard) {
    if (const std::optional<Box> common = Intersect(entry_->shards[shard].box, box)) fn(shard, *common);
  };
  if (order_.empty()) {
    for (uint32_t shard = 0; shard < entry_->shards.size(); ++shard) visit(shard);
    return;
  }
  const int64_t begin = box.offset[dimension_];
  const int64_t end = begin + box.size[dimension_];
  const auto first = std::upper_bound(ends_.begin(), ends_.end(), begin);
  for (size_t i = first - ends_.begin(); i < order_.size(); ++i) {
    if (entry_->shards[order_[i]].box.offset[dimension_] >= end) break;
    visit(order_[i]);
  }
}

}  // namespace shardwright
