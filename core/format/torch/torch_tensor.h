// Tensors in torch's pickles: which calls make one, and of what.
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_TORCH_TENSOR_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_TORCH_TENSOR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/format/pickle/graph.h"
#include "shardwright/core/format/torch/torch_file.h"
#include "shardwright/core/manifest/box.h"
#include "shardwright/core/manifest/dtype.h"
#include "shardwright/core/manifest/value.h"

namespace shardwright::torch_format {

// A view of a storage. Offset and strides are in elements.
struct TorchTensor {
  absl::string_view storage_key;  // in the graph's bytes
  DType dtype = DType::kInvalid;
  int64_t offset = 0;
  Shape shape;
  std::vector<int64_t> stride;
  bool conjugate = false;  // the values are the conjugates of what is stored
  bool negative = false;   // the values are the negatives of what is stored
  std::optional<bool> requires_grad;
  bool is_parameter = false;
  Value quantizer;  // null unless quantised: the values are then the integers

  friend bool operator==(const TorchTensor&, const TorchTensor&) = default;
};

// The tensor that a node makes; nullopt if it makes none that has all its bytes in one storage (sparse, nested, meta
// and distributed tensors are such: see what is inside them). kDataLoss if a tensor's call is malformed or reaches
// outside its storage; kUnimplemented naming an element type that is not read.
absl::StatusOr<std::optional<TorchTensor>> AsTensor(const TorchFile& file, pickle::NodeId node);

// kDataLoss unless every reference in the graph is to a storage of the file, of the right size. `modules` allows the
// references to classes that old files hold.
absl::Status CheckReferences(const TorchFile& file, bool modules);

// True if the elements lie dense and row-major.
bool IsDense(const Shape& shape, const std::vector<int64_t>& stride);

}  // namespace shardwright::torch_format

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_TORCH_TENSOR_H_
