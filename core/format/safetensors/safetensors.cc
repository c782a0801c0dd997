#include "shardwright/core/format/safetensors/safetensors.h"

#include <utility>

#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/torch/naming.h"
#include "shardwright/core/manifest/little_endian.h"

namespace shardwright {
namespace safetensors {

absl::StatusOr<OpenedFile> OpenFile(CheckpointBuilder& builder, absl::string_view relative_path) {
  const std::string path = JoinPath(builder.directory(), relative_path);
  SW_ASSIGN_OR_RETURN(const CheckpointBuilder::File file, builder.Open(relative_path), _ << "reading " << path);
  OpenedFile opened{file.index, {}};
  SW_ASSIGN_OR_RETURN(opened.opened, ReadHeader(*file.file, path));
  return opened;
}

Piece PieceOf(const OpenedFile& file, const Entry& entry, Box box) {
  const uint64_t length = entry.end_bytes - entry.begin_bytes;
  std::vector<int64_t> stride = DenseStrides(entry.shape);
  return {.box = std::move(box),
          .bytes = {file.file, file.opened.data_begin_bytes + entry.begin_bytes, length, length, nullptr},
          .stride = std::move(stride)};
}

TensorMeta WeightMeta(absl::string_view name, DType dtype, Shape shape) {
  TensorMeta meta;
  meta.name = std::string(name);
  meta.dtype = dtype;
  meta.shape = std::move(shape);
  meta.role = torch_format::GuessRole(name, dtype);
  meta.trainable = meta.role == Role::kParameter;
  return meta;
}

}  // namespace safetensors

namespace {

// A length, then an object. What else begins so is no text and no known magic.
bool Sniff(const PathFacts& facts) {
  return facts.head.size() > 8 && facts.head[8] == '{' &&
         LoadLittleEndian<uint64_t>(facts.head.data()) <= facts.size_bytes - 8;
}

absl::StatusOr<OpenedCheckpoint> Open(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  CheckpointBuilder builder(storage, ParentPath(facts.path));
  SW_ASSIGN_OR_RETURN(const safetensors::OpenedFile file, safetensors::OpenFile(builder, BaseName(facts.path)));
  builder.data().layout = SaveLayout::kSingleFile;
  for (const safetensors::Entry& entry : file.opened.header.entries) {
    builder.AddTensor(safetensors::WeightMeta(entry.name, entry.dtype, entry.shape),
                      {safetensors::PieceOf(file, entry, Box::Whole(entry.shape))});
  }
  for (const auto& [key, value] : file.opened.header.metadata) builder.extras().emplace(key, value);
  absl::StatusOr<OpenedCheckpoint> opened = std::move(builder).Finish("safetensors");
  SW_RETURN_IF_ERROR(opened.status()) << "reading " << facts.path;
  return opened;
}

}  // namespace

CheckpointFormat SafetensorsFormat() {
  return {"safetensors", &Sniff, &Open};
}

}  // namespace shardwright
