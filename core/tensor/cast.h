// Conversion between floating types.
#ifndef SHARDWRIGHT_CORE_TENSOR_CAST_H_
#define SHARDWRIGHT_CORE_TENSOR_CAST_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright {

// Converts elements among F16, BF16, F32 and F64 (equal types of any kind are copied bit by bit). Rounds once, to
// nearest even, as IEEE 754 does: what is too large becomes infinity, nothing saturates. NaNs stay NaNs, quiet, with
// the sign and as much of the payload as fits. kInvalidArgument for other types, or if the spans hold different numbers
// of elements.
absl::Status CastElements(DType from, absl::Span<const char> in, DType to, absl::Span<char> out);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TENSOR_CAST_H_
