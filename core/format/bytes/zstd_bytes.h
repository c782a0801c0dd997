// Zstandard frames.
#ifndef SHARDWRIGHT_CORE_FORMAT_BYTES_ZSTD_BYTES_H_
#define SHARDWRIGHT_CORE_FORMAT_BYTES_ZSTD_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

// All bytes that the frames of the file give. Memory grows with what was really made; kResourceExhausted if that is
// more than `max_bytes`; kDataLoss if the frames are damaged or cut.
absl::StatusOr<std::string> DecompressZstd(const ReadFile& file, uint64_t max_bytes);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_BYTES_ZSTD_BYTES_H_
