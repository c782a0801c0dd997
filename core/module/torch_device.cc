#include "shardwright/core/module/torch_device.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/env.h>

#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/device/cuda.h"
#include "shardwright/core/module/call_torch.h"

namespace shardwright {
namespace {

void ComputeDeterministically() {
  // cuBLAS is deterministic only with a workspace of its own, whose size it is told before its first call.
  c10::utils::set_env("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/false);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  // That mode would also fill whatever is allocated, lest anyone reads it before it is written.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

}  // namespace

c10::Device ToTorchDevice(const Device& device) {
  if (!device.is_cuda()) return c10::Device(c10::kCPU);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device.index));
}

Device ToDevice(const c10::Device& device) {
  return device.is_cuda() ? Device::Cuda(device.index()) : Device{};
}

absl::Status UseDevice(const Device& device) {
  if (!device.is_cuda()) return absl::OkStatus();
  SW_RETURN_IF_ERROR(SetCudaDevice(device.index));
  return CallTorch([] { ComputeDeterministically(); });
}

void SynchronizeDevice(const Device& device) {
  if (!device.is_cuda()) return;
  c10::impl::getDeviceGuardImpl(c10::kCUDA)->synchronizeDevice(static_cast<c10::DeviceIndex>(device.index));
}

}  // namespace shardwright
