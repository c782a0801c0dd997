#include "shardwright/core/device/page_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "shardwright/core/base/check.h"

namespace shardwright {
namespace {

constexpr uint64_t kPageBytes = 4096;

uint64_t WholePages(uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

PagePool::~PagePool() {
  SW_CHECK(counters().in_use_bytes == 0);
  ReturnKept();
}

void* PagePool::Allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > std::numeric_limits<int64_t>::max() - kPageBytes) return nullptr;
  const uint64_t size = WholePages(bytes);
  absl::MutexLock lock(&mu_);
  char* data = TakeKept(size);
  if (data == nullptr) data = Map(size);
  if (data == nullptr) return nullptr;
  blocks_.emplace(data, size);
  counters_.allocated_bytes += size;
  counters_.in_use_bytes += size;
  counters_.most_in_use_bytes = std::max(counters_.most_in_use_bytes, counters_.in_use_bytes);
  return data;
}

bool PagePool::Free(void* data) {
  absl::MutexLock lock(&mu_);
  const auto block = blocks_.find(static_cast<char*>(data));
  if (block == blocks_.end()) return false;
  const auto [begin, size] = *block;
  blocks_.erase(block);
  counters_.in_use_bytes -= size;
  if (keepers_ > 0) {
    Keep(begin, size);
  } else {
    SW_CHECK(::munmap(begin, size) == 0);
  }
  return true;
}

void PagePool::BeginKeeping() {
  absl::MutexLock lock(&mu_);
  ++keepers_;
}

void PagePool::EndKeeping() {
  absl::MutexLock lock(&mu_);
  SW_CHECK(keepers_ > 0);
  --keepers_;
}

void PagePool::ReturnKept() {
  absl::MutexLock lock(&mu_);
  Return(counters_.kept_bytes);
}

PagePool::Counters PagePool::counters() const {
  absl::MutexLock lock(&mu_);
  return counters_;
}

// The smallest that is large enough; the rest of it stays.
char* PagePool::TakeKept(uint64_t bytes) {
  const auto fit = by_size_.lower_bound({bytes, nullptr});
  if (fit == by_size_.end()) return nullptr;
  const auto [size, data] = *fit;
  Forget(kept_.find(data));
  if (size > bytes) Remember(data + bytes, size - bytes);
  return data;
}

char* PagePool::Map(uint64_t bytes) {
  const uint64_t held = counters_.in_use_bytes + counters_.kept_bytes;
  if (held + bytes > counters_.most_in_use_bytes) Return(held + bytes - counters_.most_in_use_bytes);
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  counters_.mapped_bytes += bytes;
  return static_cast<char*>(data);
}

void PagePool::Keep(char* data, uint64_t bytes) {
  auto after = kept_.lower_bound(data);
  if (after != kept_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == data) {
      data = before->first;
      bytes += before->second;
      after = Forget(before);
    }
  }
  if (after != kept_.end() && data + bytes == after->first) {
    bytes += after->second;
    Forget(after);
  }
  Remember(data, bytes);
}

PagePool::Extents::iterator PagePool::Forget(Extents::iterator extent) {
  by_size_.erase({extent->second, extent->first});
  counters_.kept_bytes -= extent->second;
  return kept_.erase(extent);
}

void PagePool::Remember(char* data, uint64_t bytes) {
  kept_.emplace(data, bytes);
  by_size_.emplace(bytes, data);
  counters_.kept_bytes += bytes;
}

// As few of the largest as do, the last of them in part, so that small ones are not wasted.
void PagePool::Return(uint64_t bytes) {
  while (bytes > 0 && !kept_.empty()) {
    const auto fit = by_size_.lower_bound({bytes, nullptr});
    const auto [size, data] = fit != by_size_.end() ? *fit : *by_size_.rbegin();
    Forget(kept_.find(data));
    const uint64_t returned = std::min(size, bytes);
    if (size > returned) Remember(data, size - returned);
    SW_CHECK(::munmap(data + (size - returned), returned) == 0);
    bytes -= returned;
  }
}

}  // namespace shardwright
