// From tensors of a torch file to pieces that a checkpoint is built of.
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_TORCH_PIECES_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_TORCH_PIECES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/computed/piece.h"
#include "shardwright/core/format/torch/torch_file.h"
#include "shardwright/core/format/torch/torch_tensor.h"

namespace shardwright::torch_format {

// A torch file, whole or as a part of a larger file, that pieces can point into.
struct PlacedFile {
  TorchFile torch;
  uint32_t file = 0;          // index in the builder
  uint64_t offset_bytes = 0;  // where it begins there
};

// The tensor as one piece, at `box` (of the tensor's own shape) of a larger tensor.
Piece PieceOf(const PlacedFile& file, const TorchTensor& tensor, Box box);
// The elements [begin, end) of `flat`, a piece of one dimension that lies dense, as the flat range that begins at
// element `at` of a tensor of `shape`: one piece per box.
std::vector<Piece> FlatPieces(const Piece& flat, int64_t begin, int64_t end, const Shape& shape, int64_t at);

// Opens a file of the builder's folder as a torch file, checks its references, and hands the builder its checksums and
// the classes that it names.
absl::StatusOr<PlacedFile> OpenTorchFile(CheckpointBuilder& builder, absl::string_view relative_path);

}  // namespace shardwright::torch_format

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_TORCH_PIECES_H_
