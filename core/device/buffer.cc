#include "shardwright/core/device/buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/bytes.h"

namespace shardwright {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kHugePageBytes = 2 << 20;

uint64_t RoundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// What is mapped for a buffer: whole pages, huge ones where they pay.
uint64_t MappedBytes(uint64_t bytes) {
  return RoundUp(bytes, bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes);
}

absl::Status NoMemory(uint64_t bytes, int error_number) {
  return absl::ResourceExhaustedError(absl::StrCat("allocating a buffer of ", FormatBytes(bytes), " (", bytes,
                                                   " bytes): ", std::generic_category().message(error_number)));
}

// Null on failure, errno set.
char* Map(uint64_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<char*>(data);
}

// mmap aligns to pages only: map one huge page more and give the ends back.
char* MapHuge(uint64_t bytes) {
  char* const data = Map(bytes + kHugePageBytes);
  if (data == nullptr) return nullptr;
  const uint64_t skip = RoundUp(reinterpret_cast<uintptr_t>(data), kHugePageBytes) - reinterpret_cast<uintptr_t>(data);
  if (skip > 0) ::munmap(data, skip);
  if (skip < kHugePageBytes) ::munmap(data + skip + bytes, kHugePageBytes - skip);
  // Advice: where there are no huge pages the buffer works all the same.
  ::madvise(data + skip, bytes, MADV_HUGEPAGE);
  return data + skip;
}

void Unmap(char* data, uint64_t bytes) {
  ::munmap(data, MappedBytes(bytes));
}

}  // namespace

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), free_(other.free_) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  HostBuffer taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(bytes_, taken.bytes_);
  std::swap(free_, taken.free_);
  return *this;  // What was held goes with `taken`, now.
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) free_(data_, bytes_);
}

absl::StatusOr<HostBuffer> HostBuffer::Allocate(uint64_t bytes) {
  if (bytes == 0) return HostBuffer();
  if (bytes > std::numeric_limits<ptrdiff_t>::max() - 2 * kHugePageBytes) return NoMemory(bytes, ENOMEM);
  char* const data = bytes >= kHugePageBytes ? MapHuge(MappedBytes(bytes)) : Map(MappedBytes(bytes));
  if (data == nullptr) return NoMemory(bytes, errno);
  return HostBuffer(data, bytes, &Unmap);
}

}  // namespace shardwright
