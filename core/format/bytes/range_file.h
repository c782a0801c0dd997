// Parts of files, and bytes in memory, read as files.
#ifndef SHARDWRIGHT_CORE_FORMAT_BYTES_RANGE_FILE_H_
#define SHARDWRIGHT_CORE_FORMAT_BYTES_RANGE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "shardwright/core/storage/storage.h"

namespace shardwright {

// The bytes [offset, offset + length) of a file that has them. Thread-safe. Keeps the file open.
std::shared_ptr<const ReadFile> MakeRangeFile(std::shared_ptr<const ReadFile> file, uint64_t offset_bytes,
                                              uint64_t length_bytes);

// Bytes in memory. Thread-safe.
std::shared_ptr<const ReadFile> MakeMemoryFile(std::string bytes);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_BYTES_RANGE_FILE_H_
