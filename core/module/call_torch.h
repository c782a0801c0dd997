// FENCE (the .cc, not this header): torch throws; nothing above the fence does.
#ifndef SHARDWRIGHT_CORE_MODULE_CALL_TORCH_H_
#define SHARDWRIGHT_CORE_MODULE_CALL_TORCH_H_

#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardwright {

namespace internal {
// First line of an error's message, without torch's stack trace.
absl::Status StatusOfCurrentException();

template <typename T>
inline constexpr bool kIsStatusOr = false;
template <typename T>
inline constexpr bool kIsStatusOr<absl::StatusOr<T>> = true;
}  // namespace internal

// Runs fn; an exception becomes a Status: out of memory -> kResourceExhausted, index and type errors ->
// kInvalidArgument, else kInternal. fn returns void, Status, StatusOr, or a value (then the result is a StatusOr).
template <typename Fn>
auto CallTorch(Fn&& fn) {
  using Result = std::invoke_result_t<Fn>;
  if constexpr (std::is_void_v<Result>) {
    try {
      fn();
      return absl::OkStatus();
    } catch (...) {
      return internal::StatusOfCurrentException();
    }
  } else if constexpr (std::is_same_v<Result, absl::Status> || internal::kIsStatusOr<Result>) {
    try {
      return fn();
    } catch (...) {
      return Result(internal::StatusOfCurrentException());
    }
  } else {
    try {
      return absl::StatusOr<Result>(fn());
    } catch (...) {
      return absl::StatusOr<Result>(internal::StatusOfCurrentException());
    }
  }
}

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_CALL_TORCH_H_
