// Tensors in a GPU's memory as source and sink. Their bytes go through pinned memory of the host: two buffers, so that
// one is copied while the bytes of the other are hashed and written to a file, or read from one and verified.
//
//   source   GPU  [ a | b | c | ...       b -> buffer 1           sink   buffer 0 -> GPU
//                                         while the caller               while the caller
//                                         takes a from buffer 0          fills buffer 1
#ifndef SHARDWRIGHT_CORE_TENSOR_DEVICE_TENSORS_H_
#define SHARDWRIGHT_CORE_TENSOR_DEVICE_TENSORS_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "shardwright/core/base/memory_budget.h"
#include "shardwright/core/device/buffer.h"
#include "shardwright/core/device/cuda.h"
#include "shardwright/core/tensor/source_sink.h"

namespace shardwright {

// The most that one of the two buffers takes: longer copies gain nothing.
inline constexpr uint64_t kDeviceWindowBytes = 4 * 1024 * 1024;

// What bytes of a GPU are staged in. Copies of the two buffers run in one stream, one after the other.
struct DeviceStaging {
  MemoryBudget::Reservation reservation;
  std::array<HostBuffer, 2> buffers;   // pinned, of equal size, not empty
  std::unique_ptr<CopyStream> copies;  // goes first and waits: no copy outlives the buffers
};

// Reads the device's memory ahead: a tensor is read fastest from its beginning to its end. What fills that memory has
// ended, and it stays as it is as long as this lives. Tensors of the host are read from where they lie.
// Thread-safe. Borrows the state.
class DeviceSource : public TensorSource {
 public:
  DeviceSource(const LocalState& state, DeviceStaging staging);
  absl::Status Read(absl::string_view name, const Box& box, absl::Span<char> out) const override;

 private:
  // What a buffer holds, or will once its copy has ended.
  struct Window {
    const char* begin = nullptr;  // on the device
    uint64_t bytes = 0;
    bool Holds(const char* address) const { return address >= begin && address < begin + bytes; }
  };

  absl::Status ReadRun(const char* from, const char* end, absl::Span<char> out) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Fetch(const char* address, const char* end) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status StartCopy(size_t buffer, const char* begin, const char* end) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const StateIndex index_;
  mutable absl::Mutex mu_;
  const DeviceStaging staging_ ABSL_GUARDED_BY(mu_);
  mutable std::array<Window, 2> windows_ ABSL_GUARDED_BY(mu_);
  mutable size_t current_ ABSL_GUARDED_BY(mu_) = 0;  // whose window has arrived; the other one is read ahead
};

// Write returns before the device has the bytes; Finish waits for them. What uses that memory has ended before the
// first Write, and nothing uses it before Finish. Sticks on the first error. Tensors of the host are written at once.
// Thread-safe. Borrows the state.
class DeviceSink : public TensorSink {
 public:
  DeviceSink(const LocalState& state, DeviceStaging staging);
  absl::Status Write(absl::string_view name, const Box& box, absl::Span<const char> bytes) override;
  absl::Status Finish() override;

 private:
  absl::Status WriteBox(const LocalTensor& tensor, const Box& box, const char* bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status WriteRun(char* to, absl::Span<const char> bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status NextBuffer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const StateIndex index_;
  absl::Mutex mu_;
  const DeviceStaging staging_ ABSL_GUARDED_BY(mu_);
  std::array<bool, 2> under_way_ ABSL_GUARDED_BY(mu_) = {};  // by buffer: copies of it
  size_t current_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of the current buffer
  absl::Status first_error_ ABSL_GUARDED_BY(mu_);
};

// The state as it lies in memory, or staged where tensors are on a GPU; then kResourceExhausted if `budget` or the
// system has no room for the buffers, and cuda.h's codes. Borrows the state and the budget.
absl::StatusOr<std::unique_ptr<TensorSource>> MakeTensorSource(const LocalState& state, MemoryBudget& budget);
absl::StatusOr<std::unique_ptr<TensorSink>> MakeTensorSink(const LocalState& state, MemoryBudget& budget);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TENSOR_DEVICE_TENSORS_H_
