// One rank's pieces of tensors, in memory: what a strategy owns, and what loads fill and saves drain.
#ifndef SHARDWRIGHT_CORE_TENSOR_LOCAL_TENSOR_H_
#define SHARDWRIGHT_CORE_TENSOR_LOCAL_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/core/device/device.h"
#include "shardwright/core/manifest/tensor_meta.h"

namespace shardwright {

// A dense row-major block `box` of the tensor `meta`. Borrows its memory from whoever made it (usually torch), which
// must not move or free it while the LocalTensor is in use. Ranks that own nothing of a tensor list it with an empty
// box.
struct LocalTensor {
  TensorMeta meta;
  Box box;
  char* data = nullptr;  // null if the box is empty
  std::string alias_of;  // not empty: shares the memory of that tensor (tied weights); data and box as there
  Device device = {};    // whose memory `data` is: a GPU's is not for the host to touch, see DeviceSource

  int64_t bytes() const { return meta.BytesOf(box); }
};

// All of a rank's tensors, in a stable order that is the same on every rank.
using LocalState = std::vector<LocalTensor>;

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TENSOR_LOCAL_TENSOR_H_
