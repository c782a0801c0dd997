// The little of CUDA that is needed beside torch: which GPUs there are, pinned host memory, and a stream of its own for
// copies. No header of the toolkit, so that every build may include it; a build without --config=cuda sees no device
// (no_cuda.cc).
//
//   SW_ASSIGN_OR_RETURN(HostBuffer staging, AllocatePinned(bytes));
//   SW_ASSIGN_OR_RETURN(std::unique_ptr<CopyStream> copies, MakeCopyStream(device_index));
//   SW_RETURN_IF_ERROR(copies->WaitFor(compute_stream));  // what it was given so far fills the tensor
//   SW_RETURN_IF_ERROR(copies->CopyToHost(tensor_data, staging.data(), bytes));
//   SW_RETURN_IF_ERROR(copies->Synchronize());
//
// Unless said otherwise: kUnimplemented without --config=cuda, kFailedPrecondition if there is no such device or no
// driver for it, kResourceExhausted if memory is out, kInternal for CUDA's other errors.
#ifndef SHARDWRIGHT_CORE_DEVICE_CUDA_H_
#define SHARDWRIGHT_CORE_DEVICE_CUDA_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardwright/core/device/buffer.h"

// CUDA's cudaStream_t is a pointer to it.
struct CUstream_st;

namespace shardwright {

// GPUs that this process can see: 0 without a driver, and in a build without --config=cuda.
int32_t CudaDeviceCount();

// Makes `index` the device of the calling thread.
absl::Status SetCudaDevice(int32_t index);

// Page-locked host memory: copies from and to it run beside the CPU and at full speed. Takes longer to allocate and is
// lost to the rest of the system: allocate it once, and little.
absl::StatusOr<HostBuffer> AllocatePinned(uint64_t bytes);

// A stream of copies between a device and pinned memory; they run one after the other, beside the computation. Each
// call returns at once but Synchronize; both sides stay as they are until then. Thread-compatible. Destruction waits
// for what is under way.
class CopyStream {
 public:
  virtual ~CopyStream() = default;

  // Later copies begin only after all that `stream` has been given so far. A null stream is the device's default one.
  virtual absl::Status WaitFor(CUstream_st* stream) = 0;
  virtual absl::Status CopyToHost(const void* device, void* host, uint64_t bytes) = 0;
  virtual absl::Status CopyToDevice(const void* host, void* device, uint64_t bytes) = 0;
  // Returns when all copies have ended; with the first error if one failed.
  virtual absl::Status Synchronize() = 0;
};
absl::StatusOr<std::unique_ptr<CopyStream>> MakeCopyStream(int32_t device_index);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_DEVICE_CUDA_H_
