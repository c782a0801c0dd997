// The helpers over any Storage. What needs a file system is in the conformance tests.
#include "shardwright/core/storage/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/fault_storage.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::FaultKind;
using ::shardwright::testing::FaultStorage;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::StorageCall;

TEST(JoinPath, PutsOneSlashBetween) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
}

TEST(ParentPath, IsTheFolderOrADot) {
  EXPECT_EQ(ParentPath("a/b"), "a");
  EXPECT_EQ(ParentPath("a/b/"), "a");
  EXPECT_EQ(ParentPath("a//b"), "a");
  EXPECT_EQ(ParentPath("/a"), "/");
  EXPECT_EQ(ParentPath("/"), "/");
  EXPECT_EQ(ParentPath("a"), ".");
  EXPECT_EQ(ParentPath(""), ".");
}

TEST(BaseName, IsTheLastPart) {
  EXPECT_EQ(BaseName("a/b"), "b");
  EXPECT_EQ(BaseName("a/b//"), "b");
  EXPECT_EQ(BaseName("b"), "b");
  EXPECT_EQ(BaseName("/"), "/");
}

TEST(WriteWholeFile, LeavesNothingBehindWhereverItFails) {
  const std::unique_ptr<Storage> memory = MakeMemoryStorage();
  for (const StorageCall call : {StorageCall::kWriteAt, StorageCall::kSync, StorageCall::kClose}) {
    for (const FaultKind kind : {FaultKind::kIoError, FaultKind::kNoSpace}) {
      FaultStorage faults(*memory);
      faults.FailNext(call, kind);
      EXPECT_FALSE(WriteWholeFile(faults, "f", {"x", 1}).ok());
      EXPECT_FALSE(Exists(*memory, "f"));
    }
  }
}

TEST(RemoveTree, TakesLinksBeforeWhatTheyPointTo) {
  const std::unique_ptr<Storage> memory = MakeMemoryStorage();
  ASSERT_THAT(memory->CreateDirectories("t/a-step"), IsOk());
  ASSERT_THAT(memory->Symlink("a-step", "t/last"), IsOk());
  FaultStorage faults(*memory);
  faults.FailNext(StorageCall::kRemoveDirectory, FaultKind::kCrash);
  EXPECT_THAT(RemoveTree(faults, "t"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(Exists(*memory, "t/a-step"));
  EXPECT_THAT(memory->Info("t/last"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(Exists, IsFalseWhereOneCannotLook) {
  const std::unique_ptr<Storage> memory = MakeMemoryStorage();
  ASSERT_THAT(WriteWholeFile(*memory, "f", {}), IsOk());
  FaultStorage faults(*memory);
  EXPECT_TRUE(Exists(faults, "f"));
  faults.FailNext(StorageCall::kInfo, FaultKind::kIoError);
  EXPECT_FALSE(Exists(faults, "f"));
}

}  // namespace
}  // namespace shardwright
