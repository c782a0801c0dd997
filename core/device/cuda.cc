// cuda.h in builds with --config=cuda.
#include "shardwright/core/device/cuda.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/device/cuda_status.h"

namespace shardwright {
namespace {

class CudaCopyStream final : public CopyStream {
 public:
  explicit CudaCopyStream(int32_t device_index) : device_index_(device_index) {}
  ~CudaCopyStream() override {
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    if (event_ != nullptr) cudaEventDestroy(event_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Create() {
    const CudaDeviceGuard guard(device_index_);
    SW_RETURN_IF_ERROR(guard.status());
    SW_RETURN_IF_ERROR(
        CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream of copies"));
    return CudaStatus(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating a stream of copies");
  }

  absl::Status WaitFor(CUstream_st* stream) override {
    const CudaDeviceGuard guard(device_index_);  // whose default stream a null one is
    SW_RETURN_IF_ERROR(guard.status());
    SW_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(event_, stream), "ordering copies after a stream"));
    return CudaStatus(cudaStreamWaitEvent(stream_, event_, 0), "ordering copies after a stream");
  }

  absl::Status CopyToHost(const void* device, void* host, uint64_t bytes) override {
    return Copy(host, device, bytes, cudaMemcpyDeviceToHost, "to the host");
  }

  absl::Status CopyToDevice(const void* host, void* device, uint64_t bytes) override {
    return Copy(device, host, bytes, cudaMemcpyHostToDevice, "to the device");
  }

  absl::Status Synchronize() override {
    return CudaStatus(cudaStreamSynchronize(stream_), absl::StrCat("copying from or to cuda:", device_index_));
  }

 private:
  absl::Status Copy(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind, const char* direction) {
    if (bytes == 0) return absl::OkStatus();
    return CudaStatus(cudaMemcpyAsync(to, from, bytes, kind, stream_),
                      absl::StrCat("copying ", bytes, " bytes of cuda:", device_index_, " ", direction));
  }

  const int32_t device_index_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

}  // namespace

int32_t CudaDeviceCount() {
  int count = 0;
  const bool counted = CudaStatus(cudaGetDeviceCount(&count), "counting devices").ok();
  return counted ? count : 0;
}

absl::Status SetCudaDevice(int32_t index) {
  return CudaStatus(cudaSetDevice(index), absl::StrCat("using cuda:", index, " of ", CudaDeviceCount(), " devices"));
}

absl::StatusOr<HostBuffer> AllocatePinned(uint64_t bytes) {
  if (bytes == 0) return HostBuffer();
  void* data = nullptr;
  SW_RETURN_IF_ERROR(
      CudaStatus(cudaMallocHost(&data, bytes),
                 absl::StrCat("allocating a pinned buffer of ", FormatBytes(bytes), " (", bytes, " bytes)")));
  return HostBuffer::Adopt(static_cast<char*>(data), bytes, [](char* memory, uint64_t) { cudaFreeHost(memory); });
}

absl::StatusOr<std::unique_ptr<CopyStream>> MakeCopyStream(int32_t device_index) {
  auto stream = std::make_unique<CudaCopyStream>(device_index);
  SW_RETURN_IF_ERROR(stream->Create());
  return stream;
}

}  // namespace shardwright
