#include "shardwright/core/format/torch/torch_pieces.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/bytes/inflated_file.h"
#include "shardwright/core/format/torch/extras.h"

namespace shardwright::torch_format {
namespace {

PieceBytes BytesOf(const PlacedFile& file, absl::string_view storage_key) {
  const StorageBytes& storage = file.torch.storages.at(storage_key);
  PieceBytes bytes{file.file, file.offset_bytes + storage.offset_bytes, storage.stored_bytes, storage.bytes, nullptr};
  if (storage.deflated) {
    bytes.decode = [size = storage.bytes](std::shared_ptr<const ReadFile> stored) {
      return MakeInflatedFile(std::move(stored), size);
    };
  }
  return bytes;
}

}  // namespace

Piece PieceOf(const PlacedFile& file, const TorchTensor& tensor, Box box) {
  return {.box = std::move(box),
          .bytes = BytesOf(file, tensor.storage_key),
          .first = tensor.offset,
          .stride = tensor.stride,
          .big_endian = file.torch.big_endian && ItemSize(tensor.dtype) > 1,
          .conjugate = tensor.conjugate,
          .negative = tensor.negative};
}

std::vector<Piece> FlatPieces(const Piece& flat, int64_t begin, int64_t end, const Shape& shape, int64_t at) {
  SW_CHECK(flat.box.rank() == 1 && begin >= 0 && end <= flat.box.size[0]);
  std::vector<Piece> pieces;
  const Box whole = Box::Whole(shape);
  for (Box& box : BoxesOfFlatRange(shape, at, at + (end - begin))) {
    Piece piece = flat;
    piece.first = flat.first + begin + (FirstElement(whole, box) - at);
    piece.stride = DenseStrides(box.size);
    piece.box = std::move(box);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

absl::StatusOr<PlacedFile> OpenTorchFile(CheckpointBuilder& builder, absl::string_view relative_path) {
  const std::string context = absl::StrCat("reading ", JoinPath(builder.directory(), relative_path));
  SW_ASSIGN_OR_RETURN(const CheckpointBuilder::File opened, builder.Open(relative_path), _ << context);
  PlacedFile placed;
  placed.file = opened.index;
  SW_ASSIGN_OR_RETURN(placed.torch, ReadTorchFile(opened.file), _ << context);
  std::string magic(std::min<uint64_t>(opened.file->size_bytes(), 4), '\0');
  SW_RETURN_IF_ERROR(opened.file->ReadAt(0, absl::MakeSpan(magic))) << context;
  SW_RETURN_IF_ERROR(CheckReferences(placed.torch, /*modules=*/magic != kZipMagic)) << context;
  for (const auto& [key, storage] : placed.torch.storages) {
    if (storage.crc32 == 0 || storage.deflated) continue;
    builder.AddChecksum({opened.index, storage.offset_bytes, storage.bytes, storage.crc32});
  }
  for (const std::string& name : UnknownClasses(placed.torch.graph)) {
    builder.AddNote(absl::StrCat("class not run: ", absl::CHexEscape(name)));
  }
  return placed;
}

}  // namespace shardwright::torch_format
