// Early returns for absl::Status and absl::StatusOr, with context.
//
//   SW_RETURN_IF_ERROR(file->Sync()) << "saving " << path;
//   SW_ASSIGN_OR_RETURN(auto manifest, OpenManifest(path), _ << "resuming from " << path);
//
// What is streamed is put in front of the message ("saving a/b: disk full"); the code and the payloads stay.
// Each layer says its part once: action, object, place, expected, got.
#ifndef SHARDWRIGHT_CORE_BASE_STATUS_MACROS_H_
#define SHARDWRIGHT_CORE_BASE_STATUS_MACROS_H_

#include <sstream>
#include <string>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shardwright {

// The same status with "context: " in front of its message. OK stays OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok() || context.empty()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

// Collects streamed context for a failed status; converts to Status and to any StatusOr.
class StatusBuilder {
 public:
  explicit StatusBuilder(absl::Status status) : status_(std::move(status)) {}

  template <typename T>
  StatusBuilder& operator<<(const T& part) {
    context_ << part;
    return *this;
  }

  operator absl::Status() const { return Annotate(status_, context_.str()); }  // NOLINT: implicit by purpose
  template <typename T>
  operator absl::StatusOr<T>() const {  // NOLINT: implicit by purpose
    return Annotate(status_, context_.str());
  }

 private:
  absl::Status status_;
  std::ostringstream context_;
};

namespace internal {
inline absl::Status ToStatus(absl::Status status) {
  return status;
}
template <typename T>
absl::Status ToStatus(const absl::StatusOr<T>& value) {
  return value.status();
}
}  // namespace internal
}  // namespace shardwright

#define SW_INTERNAL_CONCAT_(a, b) a##b
#define SW_INTERNAL_CONCAT(a, b) SW_INTERNAL_CONCAT_(a, b)

// Returns from the enclosing function when `expr` (Status or StatusOr) failed; `<<` adds context.
#define SW_RETURN_IF_ERROR(expr)                                                                               \
  if (absl::Status sw_status_ = ::shardwright::internal::ToStatus(expr); ABSL_PREDICT_TRUE(sw_status_.ok())) { \
  } else /* NOLINT */                                                                                          \
    return ::shardwright::StatusBuilder(std::move(sw_status_))

// SW_ASSIGN_OR_RETURN(lhs, expr) or SW_ASSIGN_OR_RETURN(lhs, expr, _ << "context").
#define SW_ASSIGN_OR_RETURN(...)                                                           \
  SW_INTERNAL_PICK_ASSIGN(__VA_ARGS__, SW_INTERNAL_ASSIGN_3, SW_INTERNAL_ASSIGN_2, unused) \
  (SW_INTERNAL_CONCAT(sw_statusor_, __LINE__), __VA_ARGS__)
#define SW_INTERNAL_PICK_ASSIGN(a, b, c, picked, ...) picked
#define SW_INTERNAL_ASSIGN_2(statusor, lhs, expr)                              \
  auto statusor = (expr);                                                      \
  if (ABSL_PREDICT_FALSE(!statusor.ok())) return std::move(statusor).status(); \
  lhs = std::move(statusor).value()
#define SW_INTERNAL_ASSIGN_3(statusor, lhs, expr, context)        \
  auto statusor = (expr);                                         \
  if (ABSL_PREDICT_FALSE(!statusor.ok())) {                       \
    ::shardwright::StatusBuilder _(std::move(statusor).status()); \
    return context;                                               \
  }                                                               \
  lhs = std::move(statusor).value()

#endif  // SHARDWRIGHT_CORE_BASE_STATUS_MACROS_H_
