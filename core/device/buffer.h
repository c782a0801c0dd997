// Owned, aligned host memory for staging.
#ifndef SHARDWRIGHT_CORE_DEVICE_BUFFER_H_
#define SHARDWRIGHT_CORE_DEVICE_BUFFER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shardwright {

// Move-only. Aligned to 4 KiB (2 MiB and huge pages advised from 2 MiB on); contents undefined.
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

  char* data() const { return data_; }
  uint64_t size_bytes() const { return bytes_; }
  absl::Span<char> span() const { return {data_, bytes_}; }

 private:
  HostBuffer(char* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_DEVICE_BUFFER_H_
