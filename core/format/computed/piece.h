// A box of a tensor as some file holds it: elements at strides, behind an encoding perhaps.
#ifndef SHARDWRIGHT_CORE_FORMAT_COMPUTED_PIECE_H_
#define SHARDWRIGHT_CORE_FORMAT_COMPUTED_PIECE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/manifest/box.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

// The bytes that elements lie in.
struct PieceBytes {
  uint32_t file = 0;  // index into the manifest's files
  uint64_t offset_bytes = 0;
  uint64_t stored_bytes = 0;
  uint64_t bytes = 0;  // decoded
  // Null: the stored bytes are the bytes. Else this makes of the stored bytes a file of the decoded ones.
  std::function<absl::StatusOr<std::shared_ptr<const ReadFile>>(std::shared_ptr<const ReadFile> stored)> decode;
};

struct Piece {
  Box box;
  PieceBytes bytes;
  int64_t first = 0;            // element at which the box's first one is
  std::vector<int64_t> stride;  // in elements, per dimension
  bool big_endian = false;
  bool conjugate = false;
  bool negative = false;

  // True if the box lies dense, row-major and as it is wanted in the file, so that a shard can point at it.
  bool IsPlain() const;
};

// Strides of a dense row-major block.
std::vector<int64_t> DenseStrides(const Shape& shape);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_COMPUTED_PIECE_H_
