#include "shardwright/core/module/autocast.h"

#include <ATen/autocast_mode.h>

#include "shardwright/core/base/check.h"
#include "shardwright/core/module/torch_module.h"

namespace shardwright {

Autocast::Autocast(DType compute_dtype) : active_(compute_dtype != DType::kFloat32) {
  if (!active_) return;
  SW_CHECK(!at::autocast::is_autocast_enabled(at::kCPU));
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_dtype(at::kCPU, ToScalarType(compute_dtype));
  at::autocast::set_autocast_enabled(at::kCPU, true);
}

Autocast::~Autocast() {
  if (!active_) return;
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::set_autocast_cache_enabled(true);
  at::autocast::decrement_nesting();
}

}  // namespace shardwright
