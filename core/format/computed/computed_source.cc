#include "shardwright/core/format/computed/computed_source.h"

#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/bytes/range_file.h"
#include "shardwright/core/format/computed/piece_reader.h"

namespace shardwright {
namespace {

absl::StatusOr<std::shared_ptr<const ReadFile>> OpenPiece(Storage& storage, const std::string& path,
                                                          const PieceBytes& bytes) {
  SW_ASSIGN_OR_RETURN(std::shared_ptr<const ReadFile> file, storage.OpenRead(path));
  if (bytes.offset_bytes > file->size_bytes() || bytes.stored_bytes > file->size_bytes() - bytes.offset_bytes) {
    return absl::DataLossError(absl::StrCat(path, ": ", bytes.stored_bytes, " bytes at ", bytes.offset_bytes,
                                            " wanted, the file has ", file->size_bytes()));
  }
  std::shared_ptr<const ReadFile> stored = MakeRangeFile(std::move(file), bytes.offset_bytes, bytes.stored_bytes);
  if (bytes.decode == nullptr) return stored;
  SW_ASSIGN_OR_RETURN(std::shared_ptr<const ReadFile> decoded, bytes.decode(std::move(stored)), _ << path);
  return decoded;
}

}  // namespace

ComputedSource::ComputedSource(Storage& storage, std::vector<std::string> files)
    : storage_(storage), files_(std::move(files)) {}

void ComputedSource::Add(TensorMeta meta, std::vector<Piece> pieces) {
  std::string name = meta.name;
  tensors_.insert_or_assign(std::move(name), Tensor{std::move(meta), std::move(pieces)});
}

absl::Status ComputedSource::Read(absl::string_view name, const Box& box, absl::Span<char> out) const {
  const std::string label = absl::StrCat("reading tensor \"", absl::CHexEscape(name), "\"");
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return absl::NotFoundError(absl::StrCat(label, ": it is not a computed one"));
  const Tensor& tensor = found->second;
  SW_RETURN_IF_ERROR(ValidateBox(box, tensor.meta.shape)) << label;
  const auto want_bytes = static_cast<uint64_t>(tensor.meta.BytesOf(box));
  if (out.size() != want_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(label, ": box ", box.ToString(), " has ", want_bytes, " bytes, the buffer ", out.size()));
  }
  for (const Piece& piece : tensor.pieces) {
    const std::optional<Box> part = Intersect(box, piece.box);
    if (!part.has_value()) continue;
    SW_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadFile> file,
                        OpenPiece(storage_, files_[piece.bytes.file], piece.bytes), _ << label);
    SW_RETURN_IF_ERROR(ReadPiece(piece, *file, tensor.meta.dtype, *part, box, out)) << label;
  }
  return absl::OkStatus();
}

}  // namespace shardwright
