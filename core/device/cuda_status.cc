#include "shardwright/core/device/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace shardwright {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, absl::string_view action) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // CUDA would tell the next caller once more
  return absl::Status(CodeOf(error), absl::StrCat(action, ": ", cudaGetErrorString(error)));
}

CudaDeviceGuard::CudaDeviceGuard(int32_t index) {
  if (cudaGetDevice(&previous_) != cudaSuccess) previous_ = -1;
  if (previous_ != index) status_ = CudaStatus(cudaSetDevice(index), absl::StrCat("using cuda:", index));
}

CudaDeviceGuard::~CudaDeviceGuard() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

}  // namespace shardwright
