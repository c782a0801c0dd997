#include "shardwright/core/storage/storages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/status_matchers.h"
#include "shardwright/tests/testing/temp_folder.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::TempFolder;

TEST(StorageFor, PlainPathsAndFileUrisAreLocalFiles) {
  const TempFolder folder;
  SW_ASSERT_OK_AND_ASSIGN(const StorageLocation plain, StorageFor(folder / "f"));
  EXPECT_EQ(plain.path, folder / "f");
  SW_ASSERT_OK_AND_ASSIGN(const StorageLocation uri, StorageFor("file://" + (folder / "f")));
  EXPECT_EQ(uri.path, folder / "f");
  ASSERT_THAT(WriteWholeFile(*plain.storage, plain.path, {"x", 1}), IsOk());
  EXPECT_THAT(ReadWholeFile(*uri.storage, uri.path, 10), IsOkAndHolds("x"));
}

TEST(StorageFor, MemIsOneTreeForTheProcess) {
  SW_ASSERT_OK_AND_ASSIGN(const StorageLocation written, StorageFor("mem://storages_test"));
  ASSERT_THAT(WriteWholeFile(*written.storage, written.path, {"x", 1}), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const StorageLocation read, StorageFor("mem://storages_test"));
  EXPECT_THAT(ReadWholeFile(*read.storage, read.path, 10), IsOkAndHolds("x"));
  SW_ASSERT_OK_AND_ASSIGN(const StorageLocation local, StorageFor("storages_test"));
  EXPECT_NE(local.storage, read.storage);
}

TEST(StorageFor, OnlyASchemeOfTheTableCounts) {
  for (const char* path : {"a:b", "x://y", "MEM://y", "a/mem://b", "100%", "~", " file:///x", "mem:/x"}) {
    SW_ASSERT_OK_AND_ASSIGN(const StorageLocation location, StorageFor(path));
    EXPECT_EQ(location.path, path);
    SW_ASSERT_OK_AND_ASSIGN(const StorageLocation local, StorageFor("/"));
    EXPECT_EQ(location.storage, local.storage) << path;
  }
}

TEST(StorageFor, RefusesWhatNamesNothing) {
  for (const char* path : {"", "mem://", "file://"}) {
    EXPECT_THAT(StorageFor(path), StatusIs(absl::StatusCode::kInvalidArgument)) << path;
  }
}

TEST(StorageFor, AProgramAddsItsOwnRows) {
  const std::unique_ptr<Storage> mine = MakeMemoryStorage();
  StorageTable table = Storages();
  table.Add("mine", [&] { return mine.get(); });
  SW_ASSERT_OK_AND_ASSIGN(const StorageLocation location, StorageFor("mine://bucket/run", table));
  EXPECT_EQ(location.storage, mine.get());
  EXPECT_EQ(location.path, "bucket/run");
}

}  // namespace
}  // namespace shardwright
