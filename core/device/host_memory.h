// How much host memory is there to take.
#ifndef SHARDWRIGHT_CORE_DEVICE_HOST_MEMORY_H_
#define SHARDWRIGHT_CORE_DEVICE_HOST_MEMORY_H_

#include <cstdint>

namespace shardwright {

// The lesser of the system's available memory (MemAvailable) and the headroom of this process's memory cgroup, version
// 1 or 2. UINT64_MAX if neither can be read.
uint64_t AvailableHostBytes();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_DEVICE_HOST_MEMORY_H_
