#include "shardwright/core/storage/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;

const std::string kText(60, 'x');

TEST(MemoryStorage, ItsCapacityBoundsAllFilesTogether) {
  const std::unique_ptr<Storage> storage = MakeMemoryStorage(100);
  ASSERT_THAT(WriteWholeFile(*storage, "a", kText), IsOk());
  EXPECT_THAT(storage->FreeBytes("/"), IsOkAndHolds(40u));
  EXPECT_THAT(WriteWholeFile(*storage, "b", kText),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("write b: No space left on device")));
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->CreateFile("c"));
  EXPECT_THAT(file->Allocate(41), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("41 bytes")));
  EXPECT_THAT(file->Allocate(40), IsOk());
  EXPECT_THAT(file->WriteAt(0, {kText.data(), 40}), IsOk());
}

TEST(MemoryStorage, RemovedFilesGiveTheirSpaceBackOnceClosed) {
  const std::unique_ptr<Storage> storage = MakeMemoryStorage(100);
  ASSERT_THAT(WriteWholeFile(*storage, "a", kText), IsOk());
  {
    SW_ASSERT_OK_AND_ASSIGN(const auto reader, storage->OpenRead("a"));
    ASSERT_THAT(storage->RemoveFile("a"), IsOk());
    EXPECT_THAT(storage->FreeBytes("/"), IsOkAndHolds(40u));
  }
  EXPECT_THAT(storage->FreeBytes("/"), IsOkAndHolds(100u));
}

TEST(MemoryStorage, ReplacedFilesGiveTheirSpaceBack) {
  const std::unique_ptr<Storage> storage = MakeMemoryStorage(200);
  ASSERT_THAT(WriteWholeFile(*storage, "a", kText), IsOk());
  ASSERT_THAT(WriteWholeFile(*storage, "b", kText), IsOk());
  ASSERT_THAT(storage->Rename("a", "b"), IsOk());
  EXPECT_THAT(storage->FreeBytes("/"), IsOkAndHolds(140u));
}

TEST(MemoryStorage, RelativeAndAbsolutePathsMeetAtTheRoot) {
  const std::unique_ptr<Storage> storage = MakeMemoryStorage();
  ASSERT_THAT(WriteWholeFile(*storage, "a", kText), IsOk());
  EXPECT_THAT(ReadWholeFile(*storage, "/a", 100), IsOkAndHolds(kText));
  EXPECT_THAT(ReadWholeFile(*storage, "../../a", 100), IsOkAndHolds(kText));
}

TEST(MemoryStorage, TheRootStays) {
  const std::unique_ptr<Storage> storage = MakeMemoryStorage();
  EXPECT_THAT(storage->RemoveDirectory("/"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(storage->Rename("/", "a"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(storage->CreateDirectory("/"), StatusIs(absl::StatusCode::kAlreadyExists));
}

}  // namespace
}  // namespace shardwright
