#include "shardwright/core/plan/shard_layout.h"

#include "shardwright/core/manifest/box.h"
#include "shardwright/core/plan/placement.h"

namespace shardwright {

ShardLayout::ShardLayout(absl::Span<const TensorMeta> tensors, int32_t world_size) {
  for (int32_t rank = 0; rank < world_size; ++rank) {
    first_piece_.push_back(pieces_.size());
    const int64_t rank_begin = elements_;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Box box = RowShardBox(tensors[i], rank, world_size);
      if (box.empty()) continue;
      pieces_.push_back({.tensor = i,
                         .tensor_begin = FirstElement(Box::Whole(tensors[i].shape), box),
                         .flat_begin = elements_,
                         .elements = box.elements()});
      elements_ += box.elements();
    }
    counts_.push_back(elements_ - rank_begin);
  }
  first_piece_.push_back(pieces_.size());
}

absl::Span<const ShardPiece> ShardLayout::PiecesOf(int32_t rank) const {
  return absl::MakeConstSpan(pieces_).subspan(first_piece_[rank], first_piece_[rank + 1] - first_piece_[rank]);
}

}  // namespace shardwright
