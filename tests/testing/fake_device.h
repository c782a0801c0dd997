// A GPU's memory and its streams of copies without a GPU: for tests of what stages bytes.
//
// Memory of the device is not for the host to touch: who does ends the process, as on a real machine.
#ifndef SHARDWRIGHT_TESTS_TESTING_FAKE_DEVICE_H_
#define SHARDWRIGHT_TESTS_TESTING_FAKE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "shardwright/core/device/cuda.h"
#include "shardwright/core/tensor/device_tensors.h"
#include "shardwright/core/tensor/local_tensor.h"

namespace shardwright::testing {

// The extremes between which a real device's copies happen.
enum class CopiesHappen { kAtOnce, kAtSynchronize };

// Thread-safe; a stream of it is not, as CopyStream says.
class FakeDevice {
 public:
  FakeDevice(uint64_t bytes, CopiesHappen when);
  ~FakeDevice();
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  // A state of the same tensors with their bytes in this device's memory.
  LocalState Upload(const LocalState& host);
  // The bytes of one of its tensors.
  absl::Span<char> BytesOf(const LocalTensor& tensor) const;

  std::unique_ptr<CopyStream> MakeStream();
  // Two buffers of `window_bytes` and a stream.
  DeviceStaging MakeStaging(uint64_t window_bytes);

  // The call of this number from now on, 0 the next, of any stream, fails; -1: none.
  void FailCall(int64_t call);
  // Copies that were asked for and have not happened, their bytes, and bytes of all copies so far.
  int64_t pending_copies() const;
  uint64_t pending_bytes() const;
  uint64_t copied_bytes() const;

 private:
  class Stream;
  struct Copy {
    char* to = nullptr;
    const char* from = nullptr;
    uint64_t bytes = 0;
  };

  absl::Status CountCall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Where the host reaches what is at an address of the device.
  char* HostView(const char* address) const;

  const uint64_t bytes_;
  const CopiesHappen when_;
  char* device_view_ = nullptr;  // no access
  char* host_view_ = nullptr;    // the same memory
  mutable absl::Mutex mu_;
  uint64_t allocated_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t calls_until_failure_ ABSL_GUARDED_BY(mu_) = -1;
  int64_t pending_copies_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t pending_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t copied_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_TESTING_FAKE_DEVICE_H_
