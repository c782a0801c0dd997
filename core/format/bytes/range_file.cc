#include "shardwright/core/format/bytes/range_file.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shardwright {
namespace {

absl::Status CheckRange(uint64_t offset_bytes, size_t length, uint64_t size_bytes) {
  if (offset_bytes <= size_bytes && length <= size_bytes - offset_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("reading ", length, " bytes at ", offset_bytes, ": there are ", size_bytes));
}

class RangeFile : public ReadFile {
 public:
  RangeFile(std::shared_ptr<const ReadFile> file, uint64_t offset_bytes, uint64_t length_bytes)
      : file_(std::move(file)), offset_bytes_(offset_bytes), length_bytes_(length_bytes) {}

  uint64_t size_bytes() const override { return length_bytes_; }
  absl::Status ReadAt(uint64_t offset_bytes, absl::Span<char> out) const override {
    if (absl::Status status = CheckRange(offset_bytes, out.size(), length_bytes_); !status.ok()) return status;
    return file_->ReadAt(offset_bytes_ + offset_bytes, out);
  }

 private:
  const std::shared_ptr<const ReadFile> file_;
  const uint64_t offset_bytes_;
  const uint64_t length_bytes_;
};

class MemoryFile : public ReadFile {
 public:
  explicit MemoryFile(std::string bytes) : bytes_(std::move(bytes)) {}

  uint64_t size_bytes() const override { return bytes_.size(); }
  absl::Status ReadAt(uint64_t offset_bytes, absl::Span<char> out) const override {
    if (absl::Status status = CheckRange(offset_bytes, out.size(), bytes_.size()); !status.ok()) return status;
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset_bytes, out.size());
    return absl::OkStatus();
  }

 private:
  const std::string bytes_;
};

}  // namespace

std::shared_ptr<const ReadFile> MakeRangeFile(std::shared_ptr<const ReadFile> file, uint64_t offset_bytes,
                                              uint64_t length_bytes) {
  return std::make_shared<RangeFile>(std::move(file), offset_bytes, length_bytes);
}

std::shared_ptr<const ReadFile> MakeMemoryFile(std::string bytes) {
  return std::make_shared<MemoryFile>(std::move(bytes));
}

}  // namespace shardwright
