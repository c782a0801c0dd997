// How the ranks' row shards of some tensors lie in one flat buffer, as collectives want them: rank after rank.
//
//   a: 3 rows of 2, b: 2 rows of 1, on 2 ranks
//   [ rank 0: a rows 0-0 | b row 0 ] [ rank 1: a rows 1-2 | b row 1 ]
//     counts()[0] = 3                  counts()[1] = 5
#ifndef SHARDWRIGHT_CORE_PLAN_SHARD_LAYOUT_H_
#define SHARDWRIGHT_CORE_PLAN_SHARD_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "shardwright/core/manifest/tensor_meta.h"

namespace shardwright {

// A run of elements that is contiguous in its tensor and in the buffer.
struct ShardPiece {
  size_t tensor = 0;
  int64_t tensor_begin = 0;  // in elements, of the whole tensor
  int64_t flat_begin = 0;    // in elements, of the whole buffer
  int64_t elements = 0;      // at least 1
};

// Immutable. Shards are RowShardBox's, so scalars stand in every rank's part.
class ShardLayout {
 public:
  // At least one rank.
  ShardLayout(absl::Span<const TensorMeta> tensors, int32_t world_size);

  // Elements of each rank's part.
  absl::Span<const int64_t> counts() const { return counts_; }
  int64_t elements() const { return elements_; }
  // Of one rank, in the order of the tensors; tensors of which it has nothing are left out.
  absl::Span<const ShardPiece> PiecesOf(int32_t rank) const;
  // Of all ranks.
  absl::Span<const ShardPiece> pieces() const { return pieces_; }

 private:
  std::vector<int64_t> counts_;
  int64_t elements_ = 0;
  std::vector<ShardPiece> pieces_;
  std::vector<size_t> first_piece_;  // by rank, and the end
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_SHARD_LAYOUT_H_
