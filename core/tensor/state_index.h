// The tensors of a LocalState by name.
#ifndef SHARDWRIGHT_CORE_TENSOR_STATE_INDEX_H_
#define SHARDWRIGHT_CORE_TENSOR_STATE_INDEX_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/tensor/local_tensor.h"

namespace shardwright {

// Borrows the state.
class StateIndex {
 public:
  explicit StateIndex(const LocalState& state);

  // Null if there is none of that name.
  const LocalTensor* Find(absl::string_view name) const;
  // The tensor that holds all of `box`, `bytes` long. kNotFound if there is none of that name; kInvalidArgument naming
  // what is asked for and what is held if it does not, or the box has another length.
  absl::StatusOr<const LocalTensor*> Lookup(absl::string_view name, const Box& box, size_t bytes) const;

 private:
  absl::flat_hash_map<absl::string_view, const LocalTensor*> by_name_;
};

// Offset of `box`, which is not empty, in the memory of the tensor that holds it.
uint64_t FirstByte(const LocalTensor& tensor, const Box& box);
// True if `box` is not empty, held, and one run of that memory.
bool IsHeldInOneRun(const LocalTensor& tensor, const Box& box);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TENSOR_STATE_INDEX_H_
