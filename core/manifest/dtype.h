// Element types, under the names that safetensors files use, and some of torch's that such files lack.
#ifndef SHARDWRIGHT_CORE_MANIFEST_DTYPE_H_
#define SHARDWRIGHT_CORE_MANIFEST_DTYPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shardwright {

// Persisted by number in manifests: numbers are never changed or used again.
enum class DType : uint8_t {
  kInvalid = 0,
  kBool = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kUInt32 = 6,
  kInt32 = 7,
  kUInt64 = 8,
  kInt64 = 9,
  kFloat16 = 10,
  kBFloat16 = 11,
  kFloat32 = 12,
  kFloat64 = 13,
  kFloat8E4M3 = 14,
  kFloat8E5M2 = 15,
  kFloat8E8M0 = 16,
  kComplex64 = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2FNUZ = 19,

  // Only checkpoints of other systems hold these. Numbers below are left to what safetensors may get.
  kComplex128 = 32,
  kComplex32 = 33,
  kFloat4E2M1x2 = 34,  // two 4-bit floats in each byte, the low half first; a shape counts bytes
};

// Bytes of one element; 0 for kInvalid.
int64_t ItemSize(DType dtype);
// "F32", "BF16", "BOOL", ... (safetensors' names); "C128", "C32", "F4_X2" for those that it lacks.
absl::string_view DTypeName(DType dtype);
// kInvalidArgument naming the unknown type.
absl::StatusOr<DType> ParseDType(absl::string_view name);
// True for a number that some DType has (not kInvalid).
bool IsKnownDType(int number);
// True for types that the data files of a native checkpoint may hold.
bool IsNativeDType(DType dtype);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MANIFEST_DTYPE_H_
