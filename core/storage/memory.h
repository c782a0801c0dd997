// Storage in the process's memory: for tests and for staging. Has every verb of the interface.
#ifndef SHARDWRIGHT_CORE_STORAGE_MEMORY_H_
#define SHARDWRIGHT_CORE_STORAGE_MEMORY_H_

#include <cstdint>
#include <memory>

#include "shardwright/core/storage/storage.h"

namespace shardwright {

// `capacity_bytes` bounds the sum of all file sizes (kResourceExhausted beyond).
std::unique_ptr<Storage> MakeMemoryStorage(uint64_t capacity_bytes = UINT64_MAX);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STORAGE_MEMORY_H_
