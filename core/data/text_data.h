// Byte-level text as training samples.
#ifndef SHARDWRIGHT_CORE_DATA_TEXT_DATA_H_
#define SHARDWRIGHT_CORE_DATA_TEXT_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/module/module.h"

namespace shardwright {

// Text cut into samples of `sample_tokens` bytes that start every sample_tokens - 1 bytes (a sample's last byte is the
// next one's first, so that every byte but the first is predicted once an epoch). Immutable; thread-safe.
class TextData {
 public:
  // A file, or a directory whose regular files (sorted by path, recursive) are joined; hidden files, symlinks, and
  // binary ones (names ending in .dat, files with NUL bytes) are left out. kNotFound for a wrong path; kInvalidArgument
  // naming path, bytes and need if there is less than one sample, or for a single file that is binary;
  // kResourceExhausted beyond 8 GiB.
  static absl::StatusOr<std::unique_ptr<TextData>> Open(absl::string_view path, int64_t sample_tokens);

  int64_t samples() const;
  uint64_t bytes() const { return text_.size(); }
  // CRC32C of the text and its length: a resumed run compares it, since other data would silently be other samples.
  std::string fingerprint() const;
  // Appends sample `index` to the batch.
  void Append(int64_t index, Batch& batch) const;

 private:
  TextData(std::string text, int64_t sample_tokens);
  std::string text_;
  int64_t sample_tokens_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_DATA_TEXT_DATA_H_
