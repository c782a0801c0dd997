// Deflated bytes, read as a file.
#ifndef SHARDWRIGHT_CORE_FORMAT_BYTES_INFLATED_FILE_H_
#define SHARDWRIGHT_CORE_FORMAT_BYTES_INFLATED_FILE_H_

#include <cstdint>
#include <memory>

#include "shardwright/core/storage/storage.h"

namespace shardwright {

// No deflated byte gives more than this many.
inline constexpr uint64_t kMaxInflation = 1032;

// `deflated` is one raw deflate stream that must give exactly `size_bytes`; kDataLoss when a read finds that it does
// not. Reads in order of offset cost one pass, with 128 KiB of memory; a read behind the last one starts again.
// Thread-safe; reads take turns.
std::shared_ptr<const ReadFile> MakeInflatedFile(std::shared_ptr<const ReadFile> deflated, uint64_t size_bytes);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_BYTES_INFLATED_FILE_H_
