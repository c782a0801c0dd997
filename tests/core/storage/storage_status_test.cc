#include "shardwright/core/storage/storage_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::StatusIs;
using ::testing::EndsWith;

TEST(ErrnoStatus, SaysOperationPathAndReason) {
  EXPECT_THAT(ErrnoStatus("open", "a/b", ENOENT),
              StatusIs(absl::StatusCode::kNotFound, "open a/b: No such file or directory"));
  EXPECT_THAT(ErrnoStatus("write", "a/b", ENOSPC, "7 bytes"),
              StatusIs(absl::StatusCode::kResourceExhausted, "write a/b: No space left on device (7 bytes)"));
}

TEST(ErrnoStatus, CodesAreWhatTheCallerCanDo) {
  const auto code = [](int error_number) { return ErrnoStatus("x", "y", error_number).code(); };
  for (const int full : {ENOSPC, EDQUOT, EFBIG}) EXPECT_EQ(code(full), absl::StatusCode::kResourceExhausted);
  for (const int denied : {EACCES, EPERM, EROFS}) EXPECT_EQ(code(denied), absl::StatusCode::kPermissionDenied);
  for (const int wrong : {ENOTEMPTY, ENOTDIR, EISDIR, ELOOP, EXDEV}) {
    EXPECT_EQ(code(wrong), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(code(EEXIST), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code(ENAMETOOLONG), absl::StatusCode::kInvalidArgument);
  for (const int device : {EIO, ESTALE, EBUSY, ETIMEDOUT}) EXPECT_EQ(code(device), absl::StatusCode::kUnavailable);
}

TEST(LockHeldStatus, ShowsTheHolderEscapedAndCut) {
  EXPECT_THAT(LockHeldStatus("l", "pid 7\n"), StatusIs(absl::StatusCode::kUnavailable, "lock l: held by pid 7"));
  EXPECT_THAT(LockHeldStatus("l", "\x1b[1m\xc3\xa4"),
              StatusIs(absl::StatusCode::kUnavailable, "lock l: held by \\033[1m\xc3\xa4"));
  EXPECT_THAT(LockHeldStatus("l", ""), StatusIs(absl::StatusCode::kUnavailable, EndsWith("left no name")));
  EXPECT_LT(LockHeldStatus("l", std::string(100'000, 'x')).message().size(), 1100u);
}

}  // namespace
}  // namespace shardwright
