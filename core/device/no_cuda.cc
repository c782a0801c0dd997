// cuda.h in builds without --config=cuda.
#include "shardwright/core/device/cuda.h"

namespace shardwright {
namespace {

absl::Status NotBuilt() {
  return absl::UnimplementedError("this program was built without CUDA: build it with --config=cuda");
}

}  // namespace

int32_t CudaDeviceCount() {
  return 0;
}

absl::Status SetCudaDevice(int32_t index) {
  return NotBuilt();
}

absl::StatusOr<HostBuffer> AllocatePinned(uint64_t bytes) {
  return NotBuilt();
}

absl::StatusOr<std::unique_ptr<CopyStream>> MakeCopyStream(int32_t device_index) {
  return NotBuilt();
}

}  // namespace shardwright
