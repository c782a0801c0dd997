#include "shardwright/core/comm/reduce.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "shardwright/core/base/check.h"
#include "shardwright/core/comm/half_float.h"

namespace shardwright {
namespace {

// How a stored element becomes one that can be added, and back.
template <typename T>
struct Plain {
  using Stored = T;
  using Wide = T;
  static T Widen(T value) { return value; }
  static T Narrow(T value) { return value; }
};

struct BFloat16 {
  using Stored = uint16_t;
  using Wide = float;
  static float Widen(uint16_t bits) { return BFloat16ToFloat(bits); }
  static uint16_t Narrow(float value) { return FloatToBFloat16(value); }
};

struct Float16 {
  using Stored = uint16_t;
  using Wide = float;
  static float Widen(uint16_t bits) { return Float16ToFloat(bits); }
  static uint16_t Narrow(float value) { return FloatToFloat16(value); }
};

template <typename T>
T Add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    // Signed overflow is undefined; unsigned arithmetic wraps, and is done in 64 bits lest small types be promoted to
    // int.
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename Element, typename Combine>
void ReduceElements(absl::Span<const void* const> inputs, int64_t count, void* out, Combine combine) {
  auto* result = static_cast<typename Element::Stored*>(out);
  for (int64_t i = 0; i < count; ++i) {
    auto total = Element::Widen(static_cast<const typename Element::Stored*>(inputs[0])[i]);
    for (size_t r = 1; r < inputs.size(); ++r) {
      total = combine(total, Element::Widen(static_cast<const typename Element::Stored*>(inputs[r])[i]));
    }
    result[i] = Element::Narrow(total);
  }
}

template <typename Element>
void ReduceAs(ReduceOp op, absl::Span<const void* const> inputs, int64_t count, void* out) {
  using Wide = typename Element::Wide;
  switch (op) {
    case ReduceOp::kSum:
      return ReduceElements<Element>(inputs, count, out, [](Wide a, Wide b) { return Add<Wide>(a, b); });
    case ReduceOp::kMin:
      return ReduceElements<Element>(inputs, count, out, [](Wide a, Wide b) { return std::min<Wide>(a, b); });
    case ReduceOp::kMax:
      return ReduceElements<Element>(inputs, count, out, [](Wide a, Wide b) { return std::max<Wide>(a, b); });
  }
}

using ReduceFunction = void (*)(ReduceOp, absl::Span<const void* const>, int64_t, void*);

ReduceFunction FunctionOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return &ReduceAs<Plain<uint8_t>>;
    case DType::kInt8:
      return &ReduceAs<Plain<int8_t>>;
    case DType::kUInt16:
      return &ReduceAs<Plain<uint16_t>>;
    case DType::kInt16:
      return &ReduceAs<Plain<int16_t>>;
    case DType::kUInt32:
      return &ReduceAs<Plain<uint32_t>>;
    case DType::kInt32:
      return &ReduceAs<Plain<int32_t>>;
    case DType::kUInt64:
      return &ReduceAs<Plain<uint64_t>>;
    case DType::kInt64:
      return &ReduceAs<Plain<int64_t>>;
    case DType::kFloat16:
      return &ReduceAs<Float16>;
    case DType::kBFloat16:
      return &ReduceAs<BFloat16>;
    case DType::kFloat32:
      return &ReduceAs<Plain<float>>;
    case DType::kFloat64:
      return &ReduceAs<Plain<double>>;
    default:
      return nullptr;
  }
}

}  // namespace

bool CanReduce(DType dtype, ReduceOp op) {
  if (dtype == DType::kBool && op == ReduceOp::kSum) return false;
  return FunctionOf(dtype) != nullptr;
}

void Reduce(DType dtype, ReduceOp op, absl::Span<const void* const> inputs, int64_t count, void* out) {
  SW_CHECK(CanReduce(dtype, op) && !inputs.empty());
  FunctionOf(dtype)(op, inputs, count, out);
}

}  // namespace shardwright
