#include "shardwright/cli/app/choose_device.h"

#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/device/cuda.h"

namespace shardwright::app {

absl::StatusOr<Device> ChooseDevice(absl::string_view text, int32_t local_rank, int32_t local_world_size) {
  const int32_t devices = CudaDeviceCount();
  SW_ASSIGN_OR_RETURN(
      const Device device,
      ParseDevice(text, {.local_rank = local_rank, .local_world_size = local_world_size, .cuda_devices = devices}),
      _ << "--device");
  if (device.is_cuda() && device.index >= devices) {  // one that is there is begun by the rank that uses it
    SW_RETURN_IF_ERROR(SetCudaDevice(device.index)) << "--device=" << text;
  }
  return device;
}

}  // namespace shardwright::app
