// Half-precision numbers as bit patterns, to and from float. For code that has no torch; private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_HALF_FLOAT_H_
#define SHARDWRIGHT_CORE_COMM_HALF_FLOAT_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace shardwright {

// The upper half of a float.
inline float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even; a NaN stays a NaN.
inline uint16_t FloatToBFloat16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// IEEE binary16: 1 sign, 5 exponent and 10 fraction bits.
inline float Float16ToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) ? -1.0f : 1.0f;
  if (exponent == 0x1f) return fraction ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
}

// Rounds to nearest, ties to even; too large becomes infinity; a NaN stays a NaN.
inline uint16_t FloatToFloat16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  // Below 2^-14 numbers are multiples of 2^-24; std::nearbyint rounds ties to even in the default mode. The carry of a
  // full fraction runs into the exponent, which is just right.
  if (magnitude < std::ldexp(1.0f, -14)) return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  int exponent;
  const float fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const int scaled = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));
  return sign | static_cast<uint16_t>(((exponent + 13) << 10) + scaled);
}

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_HALF_FLOAT_H_
