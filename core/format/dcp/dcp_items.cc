#include "shardwright/core/format/dcp/dcp_items.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/bytes/range_file.h"
#include "shardwright/core/format/bytes/zstd_bytes.h"
#include "shardwright/core/format/computed/piece_reader.h"
#include "shardwright/core/format/torch/extras.h"
#include "shardwright/core/format/torch/torch_pieces.h"

namespace shardwright::dcp {
namespace {

constexpr absl::string_view kZstd = "stream.zstd/1";
// Most items are small: those are read at once rather than in several pieces.
constexpr uint64_t kSmallItemBytes = 64 * 1024;
constexpr uint64_t kMaxValueBytes = 256 << 20;
// What an archive has beside its tensor.
constexpr uint64_t kArchiveSlackBytes = 1 << 20;

std::string Place(const StoredItem& item) {
  return absl::StrCat(absl::CHexEscape(item.path), " at byte ", item.offset_bytes);
}

absl::Status CheckTransforms(const StoredItem& item) {
  for (const std::string& transform : item.transforms) {
    if (transform == kZstd) continue;
    return absl::UnimplementedError(absl::StrCat(
        Place(item), ": transform \"", absl::CHexEscape(transform.substr(0, 100)), "\", only ", kZstd, " is known"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const ReadFile>> Undo(size_t transforms, std::shared_ptr<const ReadFile> bytes,
                                                     uint64_t max_bytes) {
  for (size_t i = 0; i < transforms; ++i) {
    SW_ASSIGN_OR_RETURN(std::string plain, DecompressZstd(*bytes, max_bytes));
    bytes = MakeMemoryFile(std::move(plain));
  }
  return bytes;
}

// An archive of a bare tensor of that type and shape.
absl::StatusOr<torch_format::TorchTensor> ParseChunk(const torch_format::TorchFile& file, DType dtype,
                                                     const Shape& shape) {
  SW_RETURN_IF_ERROR(torch_format::CheckReferences(file, /*modules=*/false));
  SW_ASSIGN_OR_RETURN(std::optional<torch_format::TorchTensor> tensor, torch_format::AsTensor(file, file.graph.root()));
  if (!tensor.has_value()) return absl::DataLossError("the item is no tensor");
  if (tensor->dtype == dtype && tensor->shape == shape) return *std::move(tensor);
  return absl::DataLossError(absl::StrCat("the item is ", DTypeName(tensor->dtype), ShapeToString(tensor->shape),
                                          ", want ", DTypeName(dtype), ShapeToString(shape)));
}

// Makes of a compressed archive the bytes of its tensor, dense.
absl::StatusOr<std::shared_ptr<const ReadFile>> DecodeChunk(std::shared_ptr<const ReadFile> stored, size_t transforms,
                                                            DType dtype, const Shape& shape) {
  const Box whole = Box::Whole(shape);
  const auto dense_bytes = static_cast<uint64_t>(whole.elements() * ItemSize(dtype));
  SW_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadFile> archive,
                      Undo(transforms, std::move(stored), 2 * dense_bytes + kArchiveSlackBytes));
  torch_format::PlacedFile placed;
  SW_ASSIGN_OR_RETURN(placed.torch, torch_format::ReadTorchZip(archive));
  SW_ASSIGN_OR_RETURN(const torch_format::TorchTensor tensor, ParseChunk(placed.torch, dtype, shape));
  const Piece piece = torch_format::PieceOf(placed, tensor, whole);
  std::string dense(dense_bytes, '\0');
  std::shared_ptr<const ReadFile> record = MakeRangeFile(archive, piece.bytes.offset_bytes, piece.bytes.stored_bytes);
  if (piece.bytes.decode != nullptr) {
    SW_ASSIGN_OR_RETURN(record, piece.bytes.decode(record));
  }
  SW_RETURN_IF_ERROR(ReadPiece(piece, *record, dtype, whole, whole, absl::MakeSpan(dense)));
  return MakeMemoryFile(std::move(dense));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ReadFile>> ItemReader::OpenItem(const StoredItem& item) {
  SW_RETURN_IF_ERROR(CheckTransforms(item));
  if (open_path_ != item.path) {
    absl::StatusOr<CheckpointBuilder::File> file = builder_.Open(item.path);
    if (absl::IsNotFound(file.status())) {
      return absl::DataLossError(
          absl::StrCat("the metadata names ", absl::CHexEscape(item.path), ", which is not there"));
    }
    SW_RETURN_IF_ERROR(file.status());
    open_ = *std::move(file);
    open_path_ = item.path;
  }
  const uint64_t size = open_.file->size_bytes();
  if (item.offset_bytes > size || item.length_bytes > size - item.offset_bytes) {
    return absl::DataLossError(
        absl::StrCat(Place(item), ": an item of ", item.length_bytes, " bytes, the file has ", size));
  }
  if (item.length_bytes > kSmallItemBytes) return MakeRangeFile(open_.file, item.offset_bytes, item.length_bytes);
  std::string bytes(item.length_bytes, '\0');
  SW_RETURN_IF_ERROR(open_.file->ReadAt(item.offset_bytes, absl::MakeSpan(bytes)));
  return MakeMemoryFile(std::move(bytes));
}

absl::StatusOr<Piece> ItemReader::ReadChunk(const std::string& name, const StoredItem& item, DType dtype,
                                            const Box& box) {
  SW_ASSIGN_OR_RETURN(std::shared_ptr<const ReadFile> bytes, OpenItem(item));
  if (!item.transforms.empty()) {
    const auto dense_bytes = static_cast<uint64_t>(box.elements() * ItemSize(dtype));
    return Piece{
        .box = box,
        .bytes = {open_.index, item.offset_bytes, item.length_bytes, dense_bytes,
                  [count = item.transforms.size(), dtype, shape = box.size](std::shared_ptr<const ReadFile> stored) {
                    return DecodeChunk(std::move(stored), count, dtype, shape);
                  }},
        .stride = DenseStrides(box.size)};
  }
  std::string magic(std::min<uint64_t>(bytes->size_bytes(), 4), '\0');
  SW_RETURN_IF_ERROR(bytes->ReadAt(0, absl::MakeSpan(magic)));
  absl::StatusOr<Piece> piece =
      magic == torch_format::kZipMagic ? ReadArchive(item, bytes, dtype, box) : ReadFromBlob(name, item, dtype, box);
  SW_RETURN_IF_ERROR(piece.status()) << Place(item);
  return piece;
}

absl::StatusOr<Piece> ItemReader::ReadArchive(const StoredItem& item, const std::shared_ptr<const ReadFile>& bytes,
                                              DType dtype, const Box& box) {
  torch_format::PlacedFile placed;
  placed.file = open_.index;
  placed.offset_bytes = item.offset_bytes;
  SW_ASSIGN_OR_RETURN(placed.torch, torch_format::ReadTorchZip(bytes));
  SW_ASSIGN_OR_RETURN(const torch_format::TorchTensor tensor, ParseChunk(placed.torch, dtype, box.size));
  const torch_format::StorageBytes& storage = placed.torch.storages.at(tensor.storage_key);
  if (storage.crc32 != 0 && !storage.deflated) {
    builder_.AddChecksum({open_.index, item.offset_bytes + storage.offset_bytes, storage.bytes, storage.crc32});
  }
  return torch_format::PieceOf(placed, tensor, box);
}

absl::StatusOr<Piece> ItemReader::ReadFromBlob(const std::string& name, const StoredItem& item, DType dtype,
                                               const Box& box) {
  const auto [place, is_new] = blobs_.try_emplace({item.path, item.offset_bytes});
  Blob& blob = place->second;
  if (is_new) {
    const std::shared_ptr<const ReadFile> rest =
        MakeRangeFile(open_.file, item.offset_bytes, open_.file->size_bytes() - item.offset_bytes);
    SW_ASSIGN_OR_RETURN(blob.opened, safetensors::ReadHeader(*rest, item.path));
    const std::vector<safetensors::Entry>& entries = blob.opened.header.entries;
    for (size_t i = 0; i < entries.size(); ++i) blob.by_name.emplace(entries[i].name, i);
  }
  const auto found = blob.by_name.find(name);
  if (found == blob.by_name.end()) return absl::DataLossError("the safetensors blob there lacks the tensor");
  const safetensors::Entry& entry = blob.opened.header.entries[found->second];
  if (entry.dtype != dtype || entry.shape != box.size) {
    return absl::DataLossError(absl::StrCat("the item is ", DTypeName(entry.dtype), ShapeToString(entry.shape),
                                            ", want ", DTypeName(dtype), ShapeToString(box.size)));
  }
  const uint64_t length = entry.end_bytes - entry.begin_bytes;
  return Piece{.box = box,
               .bytes = {open_.index, item.offset_bytes + blob.opened.data_begin_bytes + entry.begin_bytes, length,
                         length, nullptr},
               .stride = DenseStrides(box.size)};
}

absl::StatusOr<Value> ItemReader::ReadValue(const StoredItem& item) {
  SW_ASSIGN_OR_RETURN(std::shared_ptr<const ReadFile> stored, OpenItem(item));
  SW_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadFile> bytes,
                      Undo(item.transforms.size(), std::move(stored), kMaxValueBytes), _ << Place(item));
  SW_ASSIGN_OR_RETURN(const torch_format::TorchFile file, torch_format::ReadTorchFile(bytes), _ << Place(item));
  for (const std::string& name : torch_format::UnknownClasses(file.graph)) {
    builder_.AddNote(absl::StrCat("class not run: ", absl::CHexEscape(name)));
  }
  return torch_format::ToValue(file.graph, file.graph.root(), {});
}

}  // namespace shardwright::dcp
