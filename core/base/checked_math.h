// Sizes that come from files are multiplied and added here, so that an overflow is an answer and not a small number.
#ifndef SHARDWRIGHT_CORE_BASE_CHECKED_MATH_H_
#define SHARDWRIGHT_CORE_BASE_CHECKED_MATH_H_

#include <concepts>
#include <optional>

namespace shardwright {

// nullopt on overflow.
template <std::integral T>
std::optional<T> CheckedAdd(T a, T b) {
  T result;
  return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional<T>(result);
}

template <std::integral T>
std::optional<T> CheckedMultiply(T a, T b) {
  T result;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional<T>(result);
}

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_BASE_CHECKED_MATH_H_
