// FENCE: devices as torch knows them.
#ifndef SHARDWRIGHT_CORE_MODULE_TORCH_DEVICE_H_
#define SHARDWRIGHT_CORE_MODULE_TORCH_DEVICE_H_

#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "shardwright/core/device/device.h"

namespace shardwright {

c10::Device ToTorchDevice(const Device& device);
// The CPU for devices that we do not know.
Device ToDevice(const c10::Device& device);

// Makes `device` the calling thread's. On a GPU, torch's arithmetic gives the same bits every time from then on, as it
// does on the CPU; operations that cannot are warned of. Codes of SetCudaDevice.
absl::Status UseDevice(const Device& device);

// Returns once the device has done all that it was given, by whatever stream. Throws as torch does.
void SynchronizeDevice(const Device& device);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_TORCH_DEVICE_H_
