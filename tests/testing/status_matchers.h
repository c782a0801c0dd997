// Matchers for absl::Status and absl::StatusOr, under upstream Abseil's names (Debian's Abseil lacks them).
//
//   EXPECT_THAT(file->Sync(), IsOk());
//   EXPECT_THAT(ParseBytes("x"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("x")));
//   EXPECT_THAT(ParseBytes("2KiB"), IsOkAndHolds(2048));
//   SW_ASSERT_OK_AND_ASSIGN(auto manifest, OpenManifest(path));
#ifndef SHARDWRIGHT_TESTS_TESTING_STATUS_MATCHERS_H_
#define SHARDWRIGHT_TESTS_TESTING_STATUS_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright::testing {

MATCHER(IsOk, "is OK") {
  const absl::Status status = ::shardwright::internal::ToStatus(arg);
  *result_listener << status.ToString();
  return status.ok();
}

MATCHER_P2(StatusIsImpl, code, message, "is a status of that code and message") {
  const absl::Status status = ::shardwright::internal::ToStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}
inline auto StatusIs(absl::StatusCode code) {
  return StatusIsImpl(code, ::testing::Matcher<std::string>(::testing::_));
}
inline auto StatusIs(absl::StatusCode code, ::testing::Matcher<std::string> message) {
  return StatusIsImpl(code, message);
}

MATCHER_P(IsOkAndHolds, matcher, "is OK and holds a matching value") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(matcher, *arg, result_listener);
}

}  // namespace shardwright::testing

#define SW_ASSERT_OK_AND_ASSIGN(lhs, expr) \
  SW_INTERNAL_ASSERT_OK_AND_ASSIGN(SW_INTERNAL_CONCAT(sw_statusor_, __LINE__), lhs, expr)
#define SW_INTERNAL_ASSERT_OK_AND_ASSIGN(statusor, lhs, expr) \
  auto statusor = (expr);                                     \
  ASSERT_TRUE(statusor.ok()) << statusor.status();            \
  lhs = std::move(statusor).value()

#endif  // SHARDWRIGHT_TESTS_TESTING_STATUS_MATCHERS_H_
