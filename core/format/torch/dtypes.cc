#include "shardwright/core/format/torch/dtypes.h"

#include "absl/strings/match.h"

namespace shardwright::torch_format {
namespace {

struct TorchName {
  absl::string_view name;
  DType dtype;
};

constexpr TorchName kNames[] = {
    {"float32", DType::kFloat32},
    {"float", DType::kFloat32},
    {"float64", DType::kFloat64},
    {"double", DType::kFloat64},
    {"float16", DType::kFloat16},
    {"half", DType::kFloat16},
    {"bfloat16", DType::kBFloat16},
    {"int64", DType::kInt64},
    {"long", DType::kInt64},
    {"int32", DType::kInt32},
    {"int", DType::kInt32},
    {"int16", DType::kInt16},
    {"short", DType::kInt16},
    {"int8", DType::kInt8},
    {"uint8", DType::kUInt8},
    {"uint16", DType::kUInt16},
    {"uint32", DType::kUInt32},
    {"uint64", DType::kUInt64},
    {"bool", DType::kBool},
    {"complex64", DType::kComplex64},
    {"cfloat", DType::kComplex64},
    {"complex128", DType::kComplex128},
    {"cdouble", DType::kComplex128},
    {"complex32", DType::kComplex32},
    {"chalf", DType::kComplex32},
    {"float8_e4m3fn", DType::kFloat8E4M3},
    {"float8_e5m2", DType::kFloat8E5M2},
    {"float8_e8m0fnu", DType::kFloat8E8M0},
    {"float8_e4m3fnuz", DType::kFloat8E4M3FNUZ},
    {"float8_e5m2fnuz", DType::kFloat8E5M2FNUZ},
    {"float4_e2m1fn_x2", DType::kFloat4E2M1x2},
    {"qint8", DType::kInt8},
    {"quint8", DType::kUInt8},
    {"qint32", DType::kInt32},
    {"bits8", DType::kUInt8},
    {"bits16", DType::kUInt16},
};

constexpr TorchName kStorages[] = {
    {"Float", DType::kFloat32},
    {"Double", DType::kFloat64},
    {"Half", DType::kFloat16},
    {"BFloat16", DType::kBFloat16},
    {"Long", DType::kInt64},
    {"Int", DType::kInt32},
    {"Short", DType::kInt16},
    {"Char", DType::kInt8},
    {"Byte", DType::kUInt8},
    {"Bool", DType::kBool},
    {"ComplexFloat", DType::kComplex64},
    {"ComplexDouble", DType::kComplex128},
    {"QInt8", DType::kInt8},
    {"QUInt8", DType::kUInt8},
    {"QInt32", DType::kInt32},
};

}  // namespace

std::optional<DType> DTypeOfTorch(absl::string_view name) {
  for (const TorchName& row : kNames) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeOfStorage(absl::string_view class_name) {
  constexpr absl::string_view kSuffix = "Storage";
  if (!absl::EndsWith(class_name, kSuffix)) return std::nullopt;
  class_name.remove_suffix(kSuffix.size());
  for (const TorchName& row : kStorages) {
    if (row.name == class_name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace shardwright::torch_format
