#include "shardwright/core/format/bytes/inflated_file.h"

#include <zlib.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

constexpr size_t kChunkBytes = 64 * 1024;

class InflatedFile : public ReadFile {
 public:
  InflatedFile(std::shared_ptr<const ReadFile> deflated, uint64_t size_bytes)
      : deflated_(std::move(deflated)), size_bytes_(size_bytes) {}
  ~InflatedFile() override {
    if (started_) inflateEnd(&stream_);
  }

  uint64_t size_bytes() const override { return size_bytes_; }

  absl::Status ReadAt(uint64_t offset_bytes, absl::Span<char> out) const override {
    if (offset_bytes > size_bytes_ || out.size() > size_bytes_ - offset_bytes) {
      return absl::DataLossError(
          absl::StrCat("reading ", out.size(), " bytes at ", offset_bytes, ": there are ", size_bytes_));
    }
    absl::MutexLock lock(&mu_);
    if (!started_ || offset_bytes < position_) {
      SW_RETURN_IF_ERROR(Restart());
    }
    std::string skipped(std::min<uint64_t>(kChunkBytes, offset_bytes - position_), '\0');
    while (position_ < offset_bytes) {
      const size_t length = std::min<uint64_t>(skipped.size(), offset_bytes - position_);
      SW_RETURN_IF_ERROR(Inflate(absl::MakeSpan(&skipped[0], length)));
    }
    return Inflate(out);
  }

 private:
  absl::Status Restart() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (started_) inflateEnd(&stream_);
    stream_ = z_stream();
    started_ = inflateInit2(&stream_, -MAX_WBITS) == Z_OK;
    if (!started_) return absl::ResourceExhaustedError("inflating: zlib has no memory");
    input_begin_ = 0;
    position_ = 0;
    return absl::OkStatus();
  }

  absl::Status Refill() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const uint64_t length = std::min<uint64_t>(kChunkBytes, deflated_->size_bytes() - input_begin_);
    if (length == 0) return absl::DataLossError(absl::StrCat("deflated data end after ", position_, " bytes"));
    input_.resize(length);
    SW_RETURN_IF_ERROR(deflated_->ReadAt(input_begin_, absl::MakeSpan(&input_[0], length)));
    input_begin_ += length;
    stream_.next_in = reinterpret_cast<Bytef*>(&input_[0]);
    stream_.avail_in = static_cast<uInt>(length);
    return absl::OkStatus();
  }

  // Fills all of `out` with the next bytes.
  absl::Status Inflate(absl::Span<char> out) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (!out.empty()) {
      if (stream_.avail_in == 0) {
        SW_RETURN_IF_ERROR(Refill());
      }
      const size_t piece = std::min<size_t>(out.size(), 1u << 30);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = static_cast<uInt>(piece);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      const size_t made = piece - stream_.avail_out;
      position_ += made;
      out.remove_prefix(made);
      if (result == Z_STREAM_END && !out.empty()) {
        return absl::DataLossError(absl::StrCat("deflated data give ", position_, " bytes, want ", size_bytes_));
      }
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        return absl::DataLossError(absl::StrCat("deflated data are damaged after ", position_, " bytes"));
      }
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const ReadFile> deflated_;
  const uint64_t size_bytes_;
  mutable absl::Mutex mu_;
  mutable z_stream stream_ ABSL_GUARDED_BY(mu_) = z_stream();
  mutable bool started_ = false;
  mutable std::string input_ ABSL_GUARDED_BY(mu_);
  mutable uint64_t input_begin_ ABSL_GUARDED_BY(mu_) = 0;  // of the deflated bytes not read yet
  mutable uint64_t position_ ABSL_GUARDED_BY(mu_) = 0;     // in the inflated bytes
};

}  // namespace

std::shared_ptr<const ReadFile> MakeInflatedFile(std::shared_ptr<const ReadFile> deflated, uint64_t size_bytes) {
  return std::make_shared<InflatedFile>(std::move(deflated), size_bytes);
}

}  // namespace shardwright
