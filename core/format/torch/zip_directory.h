// The directory of a zip archive, as strictly as a reader must take it who does not trust its writer: local headers
// agree with the central directory, entries do not overlap, nothing lies outside.
//
//   [local header][name][extra][data][descriptor]  ...  [central directory][zip64 end][zip64 locator][end]
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_ZIP_DIRECTORY_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_ZIP_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright::torch_format {

struct ZipEntry {
  std::string name;
  uint64_t data_offset_bytes = 0;  // in the archive
  uint64_t stored_bytes = 0;
  uint64_t bytes = 0;  // inflated
  uint32_t crc32 = 0;  // 0: the writer kept none
  bool deflated = false;
};

// The entries of the archive that is the whole of `file`, in the order of its directory. kDataLoss for anything that
// does not agree, kUnimplemented for encryption and for methods other than stored and deflated. Memory is in proportion
// to the directory.
absl::StatusOr<std::vector<ZipEntry>> ReadZipDirectory(const ReadFile& file);

// The bytes of an entry, its CRC verified where there is one.
absl::StatusOr<std::string> ReadZipEntry(std::shared_ptr<const ReadFile> file, const ZipEntry& entry);

}  // namespace shardwright::torch_format

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_ZIP_DIRECTORY_H_
