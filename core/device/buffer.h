// Owned, aligned host memory for staging; pinned memory comes from cuda.h.
#ifndef SHARDWRIGHT_CORE_DEVICE_BUFFER_H_
#define SHARDWRIGHT_CORE_DEVICE_BUFFER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shardwright {

// Move-only. Aligned to 4 KiB (allocated here, from 2 MiB on to 2 MiB with huge pages advised); contents undefined.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer();

  // kResourceExhausted if the system has no memory.
  static absl::StatusOr<HostBuffer> Allocate(uint64_t bytes);
  // Owns `bytes` at `data` from another allocator; `free` gives them back.
  using Free = void (*)(char* data, uint64_t bytes);
  static HostBuffer Adopt(char* data, uint64_t bytes, Free free) { return HostBuffer(data, bytes, free); }

  char* data() const { return data_; }
  uint64_t size_bytes() const { return bytes_; }
  absl::Span<char> span() const { return {data_, bytes_}; }

 private:
  HostBuffer(char* data, uint64_t bytes, Free free) : data_(data), bytes_(bytes), free_(free) {}
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
  Free free_ = nullptr;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_DEVICE_BUFFER_H_
