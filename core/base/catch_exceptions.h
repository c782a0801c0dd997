// The edge to libraries that throw: above it, errors are a Status.
#ifndef SHARDWRIGHT_CORE_BASE_CATCH_EXCEPTIONS_H_
#define SHARDWRIGHT_CORE_BASE_CATCH_EXCEPTIONS_H_

#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardwright {

namespace internal {
template <typename T>
inline constexpr bool kIsStatusOr = false;
template <typename T>
inline constexpr bool kIsStatusOr<absl::StatusOr<T>> = true;
}  // namespace internal

// Runs fn; when it throws, the result is to_status(), called inside the handler, where `throw;` finds the exception.
// fn returns void, Status, StatusOr, or a value (then the result is a StatusOr).
template <typename Fn, typename ToStatus>
auto CatchExceptions(Fn&& fn, ToStatus&& to_status) {
  using Result = std::invoke_result_t<Fn>;
  if constexpr (std::is_void_v<Result>) {
    try {
      fn();
      return absl::OkStatus();
    } catch (...) {
      return absl::Status(to_status());
    }
  } else if constexpr (std::is_same_v<Result, absl::Status> || internal::kIsStatusOr<Result>) {
    try {
      return fn();
    } catch (...) {
      return Result(to_status());
    }
  } else {
    try {
      return absl::StatusOr<Result>(fn());
    } catch (...) {
      return absl::StatusOr<Result>(to_status());
    }
  }
}

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_BASE_CATCH_EXCEPTIONS_H_
