// FENCE (the .cc, not this header): torch throws; nothing above the fence does.
#ifndef SHARDWRIGHT_CORE_MODULE_CALL_TORCH_H_
#define SHARDWRIGHT_CORE_MODULE_CALL_TORCH_H_

#include <utility>

#include "absl/status/status.h"
#include "shardwright/core/base/catch_exceptions.h"

namespace shardwright {

namespace internal {
// First line of an error's message, without torch's stack trace.
absl::Status StatusOfCurrentException();
}  // namespace internal

// Throws what CallTorch turns back into the same Status: for hooks that torch calls, whose errors have to travel
// through it.
void ThrowIfError(const absl::Status& status);

// Runs fn; an exception becomes a Status: ThrowIfError's its own, out of memory -> kResourceExhausted, index and type
// errors -> kInvalidArgument, else kInternal. fn returns void, Status, StatusOr, or a value (then the result is a
// StatusOr).
template <typename Fn>
auto CallTorch(Fn&& fn) {
  return CatchExceptions(std::forward<Fn>(fn), &internal::StatusOfCurrentException);
}

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_CALL_TORCH_H_
