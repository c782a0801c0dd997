// CUDA's errors as Status. For files that are built with --config=cuda alone.
#ifndef SHARDWRIGHT_CORE_DEVICE_CUDA_STATUS_H_
#define SHARDWRIGHT_CORE_DEVICE_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shardwright {

// "<action>: <CUDA's words>", with the codes of cuda.h.
absl::Status CudaStatus(cudaError_t error, absl::string_view action);

// Makes `index` the thread's device and, at the end of the scope, what it was before.
class CudaDeviceGuard {
 public:
  explicit CudaDeviceGuard(int32_t index);
  ~CudaDeviceGuard();
  CudaDeviceGuard(const CudaDeviceGuard&) = delete;
  CudaDeviceGuard& operator=(const CudaDeviceGuard&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  int previous_ = -1;
  absl::Status status_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_DEVICE_CUDA_STATUS_H_
