#include "shardwright/core/checkpoint/data_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {

DataFiles::DataFiles(Storage& storage, absl::string_view directory, const Manifest& manifest)
    : storage_(storage), directory_(directory), manifest_(manifest) {}

std::string DataFiles::PathOf(uint32_t file) const {
  return JoinPath(directory_, manifest_.files()[file].path);
}

absl::Status DataFiles::Open(uint32_t file) {
  if (open_ != nullptr && open_file_ == file) return absl::OkStatus();
  open_.reset();
  const std::string path = PathOf(file);
  absl::StatusOr<std::unique_ptr<ReadFile>> opened = storage_.OpenRead(path);
  if (absl::IsNotFound(opened.status())) {
    return absl::DataLossError(absl::StrCat(path, ": the manifest lists this file, it is not there"));
  }
  SW_RETURN_IF_ERROR(opened.status());
  const uint64_t expected = manifest_.files()[file].size_bytes;
  if ((*opened)->size_bytes() != expected) {
    return absl::DataLossError(
        absl::StrCat(path, ": size in bytes: want ", expected, ", got ", (*opened)->size_bytes()));
  }
  open_ = *std::move(opened);
  open_file_ = file;
  return absl::OkStatus();
}

absl::Status DataFiles::Read(uint32_t file, uint64_t offset_bytes, absl::Span<char> out) {
  const absl::Time begin = absl::Now();
  SW_RETURN_IF_ERROR(Open(file));
  SW_RETURN_IF_ERROR(open_->ReadAt(offset_bytes, out));
  bytes_read_ += out.size();
  read_time_ += absl::Now() - begin;
  return absl::OkStatus();
}

absl::Status DataFiles::CheckHeader(uint32_t file, absl::Span<char> scratch) {
  SW_RETURN_IF_ERROR(Open(file));
  const FileMeta& meta = manifest_.files()[file];
  uint32_t crc = 0;
  for (uint64_t done = 0; done < meta.header_bytes;) {
    const absl::Span<char> piece = scratch.first(std::min<uint64_t>(scratch.size(), meta.header_bytes - done));
    SW_RETURN_IF_ERROR(Read(file, done, piece));
    crc = Crc32c(piece, crc);
    done += piece.size();
  }
  if (meta.header_bytes == 0 || crc == meta.header_crc32c) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat("%s: crc32c of the header, bytes [0, %d): want %08x, got %08x",
                                             PathOf(file), meta.header_bytes, meta.header_crc32c, crc));
}

}  // namespace shardwright
