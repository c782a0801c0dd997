#include "shardwright/core/format/opened_source.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/computed/piece_reader.h"

namespace shardwright {
namespace {

constexpr uint64_t kPieceBytes = 1024 * 1024;

}  // namespace

absl::Status OpenedSource::Read(absl::string_view name, const Box& box, absl::Span<char> out) const {
  const std::string label = absl::StrCat("reading tensor \"", absl::CHexEscape(name), "\"");
  const TensorEntry* found = opened_.manifest->Find(name);
  if (found == nullptr) return absl::NotFoundError(absl::StrCat(label, ": there is none of that name"));
  const TensorEntry& entry = opened_.manifest->Resolve(*found);
  SW_RETURN_IF_ERROR(ValidateBox(box, entry.meta.shape)) << label;
  const auto want_bytes = static_cast<uint64_t>(entry.meta.BytesOf(box));
  if (out.size() != want_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(label, ": box ", box.ToString(), " has ", want_bytes, " bytes, the buffer ", out.size()));
  }
  if (entry.computed) return opened_.computed->Read(entry.meta.name, box, out);
  SW_RETURN_IF_ERROR(ReadShards(entry, box, out)) << label;
  return absl::OkStatus();
}

absl::Status OpenedSource::ReadShards(const TensorEntry& entry, const Box& box, absl::Span<char> out) const {
  std::unique_ptr<ReadFile> file;
  uint32_t open_file = 0;
  for (const ShardMeta& shard : entry.shards) {
    const std::optional<Box> part = Intersect(box, shard.box);
    if (!part.has_value()) continue;
    if (file == nullptr || open_file != shard.file) {
      SW_ASSIGN_OR_RETURN(file,
                          storage_.OpenRead(JoinPath(opened_.directory, opened_.manifest->files()[shard.file].path)));
      open_file = shard.file;
    }
    // The byte offset need not be a multiple of the element's size: the piece begins at a file of its own.
    struct Behind : ReadFile {
      const ReadFile& file;
      const ShardMeta& shard;
      Behind(const ReadFile& f, const ShardMeta& s) : file(f), shard(s) {}
      uint64_t size_bytes() const override { return shard.length_bytes; }
      absl::Status ReadAt(uint64_t offset, absl::Span<char> bytes) const override {
        return file.ReadAt(shard.offset_bytes + offset, bytes);
      }
    };
    const Piece piece{.box = shard.box, .stride = DenseStrides(shard.box.size)};
    SW_RETURN_IF_ERROR(ReadPiece(piece, Behind(*file, shard), entry.meta.dtype, *part, box, out));
  }
  return absl::OkStatus();
}

absl::Status VerifyForeignChecksums(Storage& storage, const OpenedCheckpoint& opened) {
  std::string piece;
  for (const ForeignChecksum& checksum : opened.checksums) {
    const std::string path = JoinPath(opened.directory, opened.manifest->files()[checksum.file].path);
    SW_ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, storage.OpenRead(path));
    uint32_t crc = 0;
    for (uint64_t done = 0; done < checksum.length_bytes; done += piece.size()) {
      piece.resize(std::min(kPieceBytes, checksum.length_bytes - done));
      SW_RETURN_IF_ERROR(file->ReadAt(checksum.offset_bytes + done, absl::MakeSpan(piece)));
      crc = Crc32(piece, crc);
    }
    if (crc == checksum.crc32) continue;
    return absl::DataLossError(absl::StrFormat("%s: crc32 of bytes [%d, %d): want %08x, got %08x", path,
                                               checksum.offset_bytes, checksum.offset_bytes + checksum.length_bytes,
                                               checksum.crc32, crc));
  }
  return absl::OkStatus();
}

}  // namespace shardwright
