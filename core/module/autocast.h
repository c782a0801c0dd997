// FENCE (the .cc): the dtype that forward computes in.
#ifndef SHARDWRIGHT_CORE_MODULE_AUTOCAST_H_
#define SHARDWRIGHT_CORE_MODULE_AUTOCAST_H_

#include "shardwright/core/device/device.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright {

// While it lives, operations of this thread on `device` that are good enough in `compute_dtype` (matrix products) run
// in it, the others in float32: torch's autocast. kFloat32: nothing happens. Copies of weights are not cached, since a
// cached copy made where no gradient is wanted would cut the weight off its gradient.
class Autocast {
 public:
  explicit Autocast(DType compute_dtype, const Device& device = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool active_;
  const Device device_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_AUTOCAST_H_
