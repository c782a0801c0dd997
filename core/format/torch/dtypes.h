// Torch's names of element types and of storage classes.
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_DTYPES_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_DTYPES_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright::torch_format {

// "float32" -> kFloat32; quantised and plain-bits types are the integers that hold them. nullopt for types of less than
// a byte, which have none.
std::optional<DType> DTypeOfTorch(absl::string_view name);
// "FloatStorage" -> kFloat32. "UntypedStorage" is nullopt: it counts bytes.
std::optional<DType> DTypeOfStorage(absl::string_view class_name);

}  // namespace shardwright::torch_format

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_DTYPES_H_
