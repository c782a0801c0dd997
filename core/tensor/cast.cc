#include "shardwright/core/tensor/cast.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shardwright {
namespace {

// A binary floating type of at most 64 bits, by its bit fields.
template <typename BitsType, int kExponentBits, int kMantissaBits>
struct Layout {
  using Bits = BitsType;
  static constexpr int kExponent = kExponentBits;
  static constexpr int kMantissa = kMantissaBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kExponentMax = (1 << kExponentBits) - 1;
};
using F16 = Layout<uint16_t, 5, 10>;
using BF16 = Layout<uint16_t, 8, 7>;
using F32 = Layout<uint32_t, 8, 23>;
using F64 = Layout<uint64_t, 11, 52>;

constexpr uint64_t kF64Mantissa = (uint64_t{1} << F64::kMantissa) - 1;

// Every type here is a part of F64, so that widening to it is exact.
template <typename From>
uint64_t WidenToF64(typename From::Bits bits) {
  constexpr int kShift = F64::kMantissa - From::kMantissa;
  const uint64_t sign = static_cast<uint64_t>(bits >> (From::kExponent + From::kMantissa)) << 63;
  const int exponent = static_cast<int>(bits >> From::kMantissa) & From::kExponentMax;
  const uint64_t mantissa = static_cast<uint64_t>(bits) & ((uint64_t{1} << From::kMantissa) - 1);
  if (exponent == From::kExponentMax) {
    const uint64_t quiet = mantissa != 0 && kShift > 0 ? uint64_t{1} << (F64::kMantissa - 1) : 0;
    return sign | uint64_t{F64::kExponentMax} << F64::kMantissa | mantissa << kShift | quiet;
  }
  if (exponent != 0) {
    return sign | static_cast<uint64_t>(exponent - From::kBias + F64::kBias) << F64::kMantissa | mantissa << kShift;
  }
  if (mantissa == 0 || From::kExponent == F64::kExponent) return sign | mantissa << kShift;
  // Subnormal: the leading one moves out of the mantissa.
  const int lead = std::bit_width(mantissa) - 1;
  const int value_exponent = lead + 1 - From::kBias - From::kMantissa;
  const uint64_t rest = mantissa << (F64::kMantissa - lead) & kF64Mantissa;
  return sign | static_cast<uint64_t>(value_exponent + F64::kBias) << F64::kMantissa | rest;
}

// `value` shifted right, rounded to nearest, ties to even.
uint64_t RoundedShift(uint64_t value, int shift) {
  if (shift == 0) return value;
  if (shift > 63) return 0;
  const uint64_t half = uint64_t{1} << (shift - 1);
  const uint64_t rest = value & ((half << 1) - 1);
  const uint64_t kept = value >> shift;
  return kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);
}

template <typename To>
typename To::Bits NarrowFromF64(uint64_t bits) {
  constexpr int kShift = F64::kMantissa - To::kMantissa;
  const uint64_t sign = bits >> 63 << (To::kExponent + To::kMantissa);
  const int exponent = static_cast<int>(bits >> F64::kMantissa) & F64::kExponentMax;
  const uint64_t mantissa = bits & kF64Mantissa;
  constexpr uint64_t kInfinity = uint64_t{To::kExponentMax} << To::kMantissa;
  using Bits = typename To::Bits;
  if (exponent == F64::kExponentMax) {
    const uint64_t nan = mantissa == 0 ? 0 : mantissa >> kShift | uint64_t{1} << (To::kMantissa - 1);
    return static_cast<Bits>(sign | kInfinity | nan);
  }
  const int target = exponent - F64::kBias + To::kBias;
  if (target >= To::kExponentMax) return static_cast<Bits>(sign | kInfinity);
  if (target >= 1) {
    // A carry out of the mantissa moves into the exponent, up to infinity, as it should.
    const uint64_t rounded = RoundedShift(mantissa, kShift);
    return static_cast<Bits>(sign | ((static_cast<uint64_t>(target) << To::kMantissa) + rounded));
  }
  // Subnormal in the target type, or zero. F64's own subnormals are far below every smaller type's.
  const uint64_t significand = exponent == 0 ? mantissa : mantissa | uint64_t{1} << F64::kMantissa;
  return static_cast<Bits>(sign | RoundedShift(significand, kShift + 1 - target));
}

template <typename From, typename To>
typename To::Bits Convert(typename From::Bits bits) {
  if constexpr (std::is_same_v<To, F64>) {
    return WidenToF64<From>(bits);
  } else {
    return NarrowFromF64<To>(WidenToF64<From>(bits));
  }
}

// The pair that training uses most, without the way through F64.
template <>
uint16_t Convert<F32, BF16>(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
template <>
uint32_t Convert<BF16, F32>(uint16_t bits) {
  const uint32_t quiet = (bits & 0x7fffu) > 0x7f80u ? 0x00400000u : 0u;
  return uint32_t{bits} << 16 | quiet;
}

template <typename From, typename To>
void ConvertAll(absl::Span<const char> in, absl::Span<char> out) {
  const size_t count = in.size() / sizeof(typename From::Bits);
  for (size_t i = 0; i < count; ++i) {
    typename From::Bits bits;
    std::memcpy(&bits, in.data() + i * sizeof(bits), sizeof(bits));
    const typename To::Bits converted = Convert<From, To>(bits);
    std::memcpy(out.data() + i * sizeof(converted), &converted, sizeof(converted));
  }
}

using Converter = void (*)(absl::Span<const char> in, absl::Span<char> out);

template <typename From>
Converter ConverterFrom(DType to) {
  switch (to) {
    case DType::kFloat16:
      return &ConvertAll<From, F16>;
    case DType::kBFloat16:
      return &ConvertAll<From, BF16>;
    case DType::kFloat32:
      return &ConvertAll<From, F32>;
    case DType::kFloat64:
      return &ConvertAll<From, F64>;
    default:
      return nullptr;
  }
}

Converter FindConverter(DType from, DType to) {
  switch (from) {
    case DType::kFloat16:
      return ConverterFrom<F16>(to);
    case DType::kBFloat16:
      return ConverterFrom<BF16>(to);
    case DType::kFloat32:
      return ConverterFrom<F32>(to);
    case DType::kFloat64:
      return ConverterFrom<F64>(to);
    default:
      return nullptr;
  }
}

}  // namespace

absl::Status CastElements(DType from, absl::Span<const char> in, DType to, absl::Span<char> out) {
  const Converter convert = from == to ? nullptr : FindConverter(from, to);
  if (from != to && convert == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("converting ", DTypeName(from), " to ", DTypeName(to), ": only F16, BF16, F32 and F64 convert"));
  }
  const auto from_bytes = static_cast<size_t>(ItemSize(from));
  const auto to_bytes = static_cast<size_t>(ItemSize(to));
  if (from_bytes == 0 || in.size() % from_bytes != 0 || in.size() / from_bytes * to_bytes != out.size()) {
    return absl::InvalidArgumentError(absl::StrCat("converting ", DTypeName(from), " to ", DTypeName(to), ": ",
                                                   in.size(), " bytes do not become ", out.size()));
  }
  if (convert != nullptr) {
    convert(in, out);
  } else if (!in.empty()) {
    std::memcpy(out.data(), in.data(), in.size());
  }
  return absl::OkStatus();
}

}  // namespace shardwright
