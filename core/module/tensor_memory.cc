#include "shardwright/core/module/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstring>

namespace shardwright {
namespace {

// Smaller blocks are the heap's.
constexpr size_t kPooledBytes = 64 * 1024;

std::atomic<int> scopes{0};

// Torch's own allocator but for large blocks inside a scope.
class TensorAllocator : public c10::Allocator {
 public:
  explicit TensorAllocator(c10::Allocator& other) { other_ = &other; }

  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes >= kPooledBytes && scopes > 0 ? TensorPages().Allocate(bytes) : nullptr;
    // Where the system has no memory, the other one says so in torch's way.
    return data == nullptr ? other_->allocate(bytes) : c10::DataPtr(data, data, &Free, c10::Device(c10::kCPU));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* target, const void* source, size_t bytes) const override { std::memcpy(target, source, bytes); }

 private:
  static void Free(void* data) {
    if (!TensorPages().Free(data)) other_->raw_deallocate(data);
  }

  static inline c10::Allocator* other_ = nullptr;  // Not owned. Static, as the function that frees has no object.
};

void InstallOnce() {
  [[maybe_unused]] static const bool installed = [] {
    c10::SetCPUAllocator(new TensorAllocator(*c10::GetCPUAllocator()));
    return true;
  }();
}

}  // namespace

PagePool& TensorPages() {
  static auto& pages = *new PagePool;
  return pages;
}

PooledTensorMemory::PooledTensorMemory(Afterwards afterwards) : afterwards_(afterwards) {
  InstallOnce();
  TensorPages().BeginKeeping();
  ++scopes;
}

PooledTensorMemory::~PooledTensorMemory() {
  --scopes;
  TensorPages().EndKeeping();
  if (afterwards_ == Afterwards::kReturn) TensorPages().ReturnKept();
}

}  // namespace shardwright
