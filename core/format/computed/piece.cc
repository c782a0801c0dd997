#include "shardwright/core/format/computed/piece.h"

namespace shardwright {

std::vector<int64_t> DenseStrides(const Shape& shape) {
  std::vector<int64_t> stride(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) stride[d - 1] = stride[d] * shape[d];
  return stride;
}

bool Piece::IsPlain() const {
  if (bytes.decode != nullptr || big_endian || conjugate || negative) return false;
  if (box.empty()) return true;
  const std::vector<int64_t> dense = DenseStrides(box.size);
  for (size_t d = 0; d < stride.size(); ++d) {
    if (box.size[d] != 1 && stride[d] != dense[d]) return false;
  }
  return true;
}

}  // namespace shardwright
