// FENCE (the .cc, not this header): where the memory of large tensors comes from while a step runs.
//
// Elsewhere a freed tensor's memory goes back to the system at once, so that loads and the building of units leave
// nothing behind. Inside a step the next tensor of any size gets it, without a page fault (page_pool.h).
#ifndef SHARDWRIGHT_CORE_MODULE_TENSOR_MEMORY_H_
#define SHARDWRIGHT_CORE_MODULE_TENSOR_MEMORY_H_

#include "shardwright/core/device/page_pool.h"

namespace shardwright {

// The process's pool. Tensors may outlive everything, so it is never destroyed.
PagePool& TensorPages();

// Memory of large tensors comes from the pool, and is kept when they are freed, while one of these lives, in any
// thread.
class PooledTensorMemory {
 public:
  enum class Afterwards {
    kKeep,    // for the next one
    kReturn,  // what is kept goes back to the system
  };
  explicit PooledTensorMemory(Afterwards afterwards);
  ~PooledTensorMemory();
  PooledTensorMemory(const PooledTensorMemory&) = delete;
  PooledTensorMemory& operator=(const PooledTensorMemory&) = delete;

 private:
  const Afterwards afterwards_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_TENSOR_MEMORY_H_
