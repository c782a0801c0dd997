// Where tensors and the arithmetic on them are: the CPU, or one of the machine's GPUs.
#ifndef SHARDWRIGHT_CORE_DEVICE_DEVICE_H_
#define SHARDWRIGHT_CORE_DEVICE_DEVICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shardwright {

struct Device {
  enum class Kind { kCpu, kCuda };
  Kind kind = Kind::kCpu;
  int32_t index = 0;  // among this machine's GPUs

  static Device Cuda(int32_t index) { return {Kind::kCuda, index}; }
  bool is_cuda() const { return kind == Kind::kCuda; }

  friend bool operator==(const Device&, const Device&) = default;
  std::string ToString() const;  // "cpu", "cuda:1"
};

// What a rank's device depends on beside the user's wish.
struct DeviceSurroundings {
  int32_t local_rank = 0;
  int32_t local_world_size = 1;
  int32_t cuda_devices = 0;  // CudaDeviceCount()
};

// Understands "cpu"; "cuda", which is the local rank's own; "cuda:1"; and "auto": "cuda" where every rank of this
// machine can have one, else "cpu", so that ranks of equal machines choose alike. kInvalidArgument for anything else.
// Whether the device is there shows when it is used: SetCudaDevice.
absl::StatusOr<Device> ParseDevice(absl::string_view text, const DeviceSurroundings& surroundings);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_DEVICE_DEVICE_H_
