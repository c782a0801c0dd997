// The data files of an open checkpoint: opened when needed, one at a time, and held to what the manifest says of them.
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_DATA_FILES_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_DATA_FILES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

// Thread-compatible. Borrows the storage and the manifest.
class DataFiles {
 public:
  DataFiles(Storage& storage, absl::string_view directory, const Manifest& manifest);

  std::string PathOf(uint32_t file) const;
  // kDataLoss if the file is absent or has another size than the manifest says, naming it.
  absl::Status Open(uint32_t file);
  // Opens the file if need be and fills `out`.
  absl::Status Read(uint32_t file, uint64_t offset_bytes, absl::Span<char> out);
  // Checks the bytes before the data section, in pieces of at most `scratch`; nothing if the manifest has no checksum.
  absl::Status CheckHeader(uint32_t file, absl::Span<char> scratch);

  uint64_t bytes_read() const { return bytes_read_; }
  absl::Duration read_time() const { return read_time_; }

 private:
  Storage& storage_;
  const std::string directory_;
  const Manifest& manifest_;
  std::unique_ptr<ReadFile> open_;  // Null until the first one.
  uint32_t open_file_ = 0;
  uint64_t bytes_read_ = 0;
  absl::Duration read_time_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_DATA_FILES_H_
