#include "shardwright/core/module/autocast.h"

#include <ATen/autocast_mode.h>

#include "shardwright/core/base/check.h"
#include "shardwright/core/module/torch_device.h"
#include "shardwright/core/module/torch_module.h"

namespace shardwright {

Autocast::Autocast(DType compute_dtype, const Device& device)
    : active_(compute_dtype != DType::kFloat32), device_(device) {
  if (!active_) return;
  const at::DeviceType type = ToTorchDevice(device_).type();
  SW_CHECK(!at::autocast::is_autocast_enabled(type));
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_dtype(type, ToScalarType(compute_dtype));
  at::autocast::set_autocast_enabled(type, true);
}

Autocast::~Autocast() {
  if (!active_) return;
  at::autocast::set_autocast_enabled(ToTorchDevice(device_).type(), false);
  at::autocast::set_autocast_cache_enabled(true);
  at::autocast::decrement_nesting();
}

}  // namespace shardwright
