// Every storage: folders, names, links, renames, locks and removal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/tests/conformance/storage/backends.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

absl::Span<const char> Bytes(absl::string_view text) {
  return {text.data(), text.size()};
}

class NamesConformance : public StorageConformance {
 protected:
  void Write(const std::string& name, absl::string_view text) {
    ASSERT_THAT(WriteWholeFile(storage_, At(name), Bytes(text)), IsOk());
  }
  void MakeDirectory(const std::string& name) { ASSERT_THAT(storage_.CreateDirectories(At(name)), IsOk()); }
  absl::StatusOr<std::string> Read(const std::string& name) { return ReadWholeFile(storage_, At(name), 1 << 20); }

  std::vector<std::pair<std::string, FileType>> List(const std::string& name) {
    std::vector<std::pair<std::string, FileType>> listed;
    absl::StatusOr<std::vector<DirectoryEntry>> entries = storage_.List(At(name));
    EXPECT_THAT(entries, IsOk());
    if (!entries.ok()) return listed;
    for (const DirectoryEntry& entry : *entries) listed.emplace_back(entry.name, entry.type);
    return listed;
  }
};

TEST_P(NamesConformance, ListIsSortedAndTyped) {
  Write("b", "x");
  MakeDirectory("c");
  ASSERT_THAT(storage_.Symlink("b", At("a")), IsOk());
  Write(".hidden", "");
  EXPECT_THAT(List("."), ElementsAre(Pair(".hidden", FileType::kRegular), Pair("a", FileType::kSymlink),
                                     Pair("b", FileType::kRegular), Pair("c", FileType::kDirectory)));
  EXPECT_THAT(List("c"), IsEmpty());
  EXPECT_THAT(storage_.List(At("no")), StatusIs(absl::StatusCode::kNotFound, HasSubstr(At("no"))));
  EXPECT_THAT(storage_.List(At("b")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(At("b"))));
}

TEST_P(NamesConformance, CreateDirectoryMakesOne) {
  EXPECT_THAT(storage_.CreateDirectory(At("d")), IsOk());
  EXPECT_THAT(storage_.CreateDirectory(At("d")), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(At("d"))));
  EXPECT_THAT(storage_.CreateDirectory(At("no/d")), StatusIs(absl::StatusCode::kNotFound, HasSubstr(At("no/d"))));
}

TEST_P(NamesConformance, CreateDirectoriesMakesParentsAndIsIdempotent) {
  EXPECT_THAT(storage_.CreateDirectories(At("a/b/c")), IsOk());
  EXPECT_THAT(storage_.CreateDirectories(At("a/b/c")), IsOk());
  EXPECT_THAT(storage_.CreateDirectories(At("a/b/")), IsOk());
  EXPECT_THAT(List("a/b"), ElementsAre(Pair("c", FileType::kDirectory)));
  ASSERT_THAT(storage_.Symlink("a", At("link")), IsOk());
  EXPECT_THAT(storage_.CreateDirectories(At("link")), IsOk());
  EXPECT_THAT(storage_.CreateDirectories(At("link/b/d")), IsOk());
  Write("file", "");
  EXPECT_THAT(storage_.CreateDirectories(At("file")), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(storage_.CreateDirectories(At("file/x")), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_P(NamesConformance, CreateDirectoriesIsSafeAgainstItself) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] { EXPECT_THAT(storage_.CreateDirectories(At("a/b/c/d/e")), IsOk()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Exists(storage_, At("a/b/c/d/e")));
}

TEST_P(NamesConformance, InfoDoesNotFollowTheLastLink) {
  Write("f", "12345");
  MakeDirectory("d");
  ASSERT_THAT(storage_.Symlink("f", At("link")), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo file, storage_.Info(At("f")));
  EXPECT_EQ(file.type, FileType::kRegular);
  EXPECT_EQ(file.size_bytes, 5u);
  EXPECT_EQ(file.links, 1u);
  EXPECT_GT(file.modified_unix_nanos, 0);
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo folder, storage_.Info(At("d")));
  EXPECT_EQ(folder.type, FileType::kDirectory);
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo link, storage_.Info(At("link")));
  EXPECT_EQ(link.type, FileType::kSymlink);
  EXPECT_THAT(storage_.Info(At("no")), StatusIs(absl::StatusCode::kNotFound, HasSubstr(At("no"))));
}

TEST_P(NamesConformance, RemoveFileTakesTheLinkNotItsTarget) {
  Write("f", "x");
  ASSERT_THAT(storage_.Symlink("f", At("link")), IsOk());
  EXPECT_THAT(storage_.RemoveFile(At("link")), IsOk());
  EXPECT_THAT(Read("f"), IsOkAndHolds("x"));
  EXPECT_THAT(storage_.RemoveFile(At("f")), IsOk());
  EXPECT_THAT(storage_.RemoveFile(At("f")), StatusIs(absl::StatusCode::kNotFound, HasSubstr(At("f"))));
  MakeDirectory("d");
  EXPECT_THAT(storage_.RemoveFile(At("d")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(At("d"))));
}

TEST_P(NamesConformance, RemoveDirectoryWantsItEmpty) {
  MakeDirectory("d");
  Write("d/f", "x");
  EXPECT_THAT(storage_.RemoveDirectory(At("d")),
              StatusIs(absl::StatusCode::kFailedPrecondition, AllOf(HasSubstr(At("d")), HasSubstr("not empty"))));
  EXPECT_THAT(storage_.RemoveDirectory(At("d/f")), StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_THAT(storage_.RemoveFile(At("d/f")), IsOk());
  EXPECT_THAT(storage_.RemoveDirectory(At("d")), IsOk());
  EXPECT_THAT(storage_.RemoveDirectory(At("d")), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(NamesConformance, RenameMovesFilesAndReplacesThem) {
  Write("a", "new");
  Write("b", "old");
  MakeDirectory("d");
  EXPECT_THAT(storage_.Rename(At("a"), At("b")), IsOk());
  EXPECT_THAT(Read("b"), IsOkAndHolds("new"));
  EXPECT_FALSE(Exists(storage_, At("a")));
  EXPECT_THAT(storage_.Rename(At("b"), At("d/c")), IsOk());
  EXPECT_THAT(Read("d/c"), IsOkAndHolds("new"));
  EXPECT_THAT(storage_.Rename(At("no"), At("x")),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr(At("no")), HasSubstr(At("x")))));
  EXPECT_THAT(storage_.Rename(At("d/c"), At("no/c")), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(NamesConformance, RenameMovesDirectoriesWithWhatIsInThem) {
  MakeDirectory("a/inner");
  Write("a/inner/f", "x");
  EXPECT_THAT(storage_.Rename(At("a"), At("b")), IsOk());
  EXPECT_THAT(Read("b/inner/f"), IsOkAndHolds("x"));
  EXPECT_THAT(Read("b/inner/../inner/f"), IsOkAndHolds("x"));
  MakeDirectory("empty");
  EXPECT_THAT(storage_.Rename(At("b"), At("empty")), IsOk());
  EXPECT_THAT(Read("empty/inner/f"), IsOkAndHolds("x"));
}

TEST_P(NamesConformance, RenameOntoANonEmptyDirectoryFailsAndChangesNothing) {
  MakeDirectory("new");
  Write("new/f", "new");
  MakeDirectory("old");
  Write("old/f", "old");
  EXPECT_THAT(storage_.Rename(At("new"), At("old")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not empty")));
  EXPECT_THAT(Read("new/f"), IsOkAndHolds("new"));
  EXPECT_THAT(Read("old/f"), IsOkAndHolds("old"));
}

TEST_P(NamesConformance, RenameKeepsKindsApart) {
  Write("f", "x");
  MakeDirectory("d/inner");
  EXPECT_THAT(storage_.Rename(At("f"), At("d")), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(storage_.Rename(At("d"), At("f")), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(storage_.Rename(At("d"), At("d/inner/d")), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Read("f"), IsOkAndHolds("x"));
  EXPECT_TRUE(Exists(storage_, At("d/inner")));
}

TEST_P(NamesConformance, RenameReplacesASymlinkNotItsTarget) {
  Write("target", "kept");
  ASSERT_THAT(storage_.Symlink("target", At("last")), IsOk());
  ASSERT_THAT(storage_.Symlink("other", At("last.new")), IsOk());
  EXPECT_THAT(storage_.Rename(At("last.new"), At("last")), IsOk());
  EXPECT_THAT(storage_.ReadLink(At("last")), IsOkAndHolds("other"));
  EXPECT_THAT(Read("target"), IsOkAndHolds("kept"));
}

TEST_P(NamesConformance, RenameBetweenNamesOfOneFileDoesNothing) {
  Write("a", "x");
  ASSERT_THAT(storage_.Link(At("a"), At("b")), IsOk());
  EXPECT_THAT(storage_.Rename(At("a"), At("b")), IsOk());
  EXPECT_THAT(List("."), ElementsAre(Pair("a", FileType::kRegular), Pair("b", FileType::kRegular)));
  EXPECT_THAT(storage_.Rename(At("a"), At("a")), IsOk());
  EXPECT_THAT(Read("a"), IsOkAndHolds("x"));
}

TEST_P(NamesConformance, HardLinksAreOneFile) {
  Write("a", "123");
  EXPECT_THAT(storage_.Link(At("a"), At("b")), IsOk());
  {
    SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.OpenWrite(At("b")));
    ASSERT_THAT(file->WriteAt(1, Bytes("X")), IsOk());
  }
  EXPECT_THAT(Read("a"), IsOkAndHolds("1X3"));
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo info, storage_.Info(At("a")));
  EXPECT_EQ(info.links, 2u);
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo other, storage_.Info(At("b")));
  EXPECT_EQ(info.inode, other.inode);
  Write("c", "");
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo stranger, storage_.Info(At("c")));
  EXPECT_NE(info.inode, stranger.inode);
  ASSERT_THAT(storage_.RemoveFile(At("a")), IsOk());
  EXPECT_THAT(Read("b"), IsOkAndHolds("1X3"));
}

TEST_P(NamesConformance, OnlyRegularFilesAreHardLinked) {
  MakeDirectory("d");
  Write("f", "");
  ASSERT_THAT(storage_.Symlink("f", At("link")), IsOk());
  EXPECT_THAT(storage_.Link(At("d"), At("x")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(At("d"))));
  EXPECT_THAT(storage_.Link(At("link"), At("x")), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(storage_.Link(At("no"), At("x")), StatusIs(absl::StatusCode::kNotFound, HasSubstr(At("no"))));
  EXPECT_THAT(storage_.Link(At("f"), At("d")), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_FALSE(Exists(storage_, At("x")));
}

TEST_P(NamesConformance, SymlinksAreRelativeToTheirFolder) {
  MakeDirectory("d/e");
  Write("d/f", "in d");
  ASSERT_THAT(storage_.Symlink("f", At("d/link")), IsOk());
  ASSERT_THAT(storage_.Symlink("../f", At("d/e/up")), IsOk());
  ASSERT_THAT(storage_.Symlink("d", At("folder")), IsOk());
  EXPECT_THAT(Read("d/link"), IsOkAndHolds("in d"));
  EXPECT_THAT(Read("d/e/up"), IsOkAndHolds("in d"));
  EXPECT_THAT(Read("folder/e/up"), IsOkAndHolds("in d"));
  EXPECT_THAT(storage_.ReadLink(At("d/e/up")), IsOkAndHolds("../f"));
  EXPECT_THAT(storage_.Symlink("x", At("d/link")), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("d/link")));
  EXPECT_THAT(storage_.ReadLink(At("d/f")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(At("d/f"))));
  EXPECT_THAT(storage_.ReadLink(At("no")), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(NamesConformance, SymlinksInACircleAreAnError) {
  ASSERT_THAT(storage_.Symlink("b", At("a")), IsOk());
  ASSERT_THAT(storage_.Symlink("a", At("b")), IsOk());
  EXPECT_THAT(storage_.OpenRead(At("a")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(At("a"))));
  EXPECT_FALSE(Exists(storage_, At("a")));
}

TEST_P(NamesConformance, ExistsFollowsLinks) {
  Write("f", "");
  ASSERT_THAT(storage_.Symlink("f", At("good")), IsOk());
  ASSERT_THAT(storage_.Symlink("good", At("far")), IsOk());
  ASSERT_THAT(storage_.Symlink("nowhere", At("dangling")), IsOk());
  ASSERT_THAT(storage_.Symlink(At("f"), At("absolute")), IsOk());
  EXPECT_TRUE(Exists(storage_, At("good")));
  EXPECT_TRUE(Exists(storage_, At("far")));
  EXPECT_TRUE(Exists(storage_, At("absolute")));
  EXPECT_FALSE(Exists(storage_, At("dangling")));
  EXPECT_FALSE(Exists(storage_, At("no")));
}

TEST_P(NamesConformance, NamesAreOpaqueBytes) {
  const std::vector<std::string> names = {"a b",  "new\nline", "-v",    "x=1",          "*",  "c:d",
                                          "\xff", "100%",      "~root", "\xc3\xa4 uml", "..."};
  for (const std::string& name : names) {
    Write(name, name);
    EXPECT_THAT(Read(name), IsOkAndHolds(name));
  }
  EXPECT_EQ(List(".").size(), names.size());
  Write(std::string(255, 'n'), "longest");
  EXPECT_THAT(storage_.CreateFile(At(std::string(256, 'n'))), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(storage_.CreateFile(At(std::string("a\0b", 3))), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(List(".").size(), names.size() + 1);
}

TEST_P(NamesConformance, SyncDirectoryWantsADirectory) {
  Write("f", "");
  EXPECT_THAT(storage_.SyncDirectory(At(".")), IsOk());
  EXPECT_THAT(storage_.SyncDirectory(At("f")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(At("f"))));
  EXPECT_THAT(storage_.SyncDirectory(At("no")), StatusIs(absl::StatusCode::kNotFound, HasSubstr(At("no"))));
}

TEST_P(NamesConformance, ALockHasOneHolderWhoseTextOthersSee) {
  SW_ASSERT_OK_AND_ASSIGN(std::unique_ptr<FileLock> held, storage_.Lock(At("lock"), "pid 7 on host a"));
  EXPECT_THAT(storage_.Lock(At("lock"), "pid 8"),
              StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr(At("lock")), HasSubstr("pid 7 on host a"))));
  held.reset();
  SW_ASSERT_OK_AND_ASSIGN(held, storage_.Lock(At("lock"), "pid 9"));
  EXPECT_THAT(storage_.Lock(At("lock"), "pid 8"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("by pid 9")));
}

TEST_P(NamesConformance, ALockTakesOverAnOldFile) {
  Write("lock", "left by somebody long ago, with a longer text");
  SW_ASSERT_OK_AND_ASSIGN(const auto held, storage_.Lock(At("lock"), "me"));
  EXPECT_THAT(Read("lock"), IsOkAndHolds("me"));
}

TEST_P(NamesConformance, AHoldersTextCannotForgeATerminal) {
  SW_ASSERT_OK_AND_ASSIGN(const auto held, storage_.Lock(At("lock"), "pid 7\x1b[2J\n"));
  EXPECT_THAT(storage_.Lock(At("lock"), "x"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("pid 7\\033[2J")));
}

TEST_P(NamesConformance, LocksNeedAFile) {
  MakeDirectory("d");
  EXPECT_THAT(storage_.Lock(At("d"), "me"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(At("d"))));
  EXPECT_THAT(storage_.Lock(At("no/lock"), "me"), StatusIs(absl::StatusCode::kNotFound, HasSubstr(At("no/lock"))));
}

TEST_P(NamesConformance, RemoveTreeTakesAllAndFollowsNothing) {
  Write("outside", "kept");
  MakeDirectory("outside_folder");
  Write("outside_folder/f", "kept");
  MakeDirectory("t/a/b");
  Write("t/a/b/f", "");
  Write("t/f", "");
  ASSERT_THAT(storage_.Symlink("../outside", At("t/link")), IsOk());
  ASSERT_THAT(storage_.Symlink("../../outside_folder", At("t/a/link")), IsOk());
  EXPECT_THAT(RemoveTree(storage_, At("t")), IsOk());
  EXPECT_FALSE(Exists(storage_, At("t")));
  EXPECT_THAT(Read("outside"), IsOkAndHolds("kept"));
  EXPECT_THAT(Read("outside_folder/f"), IsOkAndHolds("kept"));
  EXPECT_THAT(RemoveTree(storage_, At("t")), IsOk());
}

TEST_P(NamesConformance, RemoveTreeOfALinkTakesTheLink) {
  MakeDirectory("d");
  Write("d/f", "kept");
  for (const char* spelling : {"link", "link/"}) {
    ASSERT_THAT(storage_.Symlink("d", At("link")), IsOk());
    EXPECT_THAT(RemoveTree(storage_, At(spelling)), IsOk());
    EXPECT_THAT(Read("d/f"), IsOkAndHolds("kept"));
    EXPECT_THAT(storage_.Info(At("link")), StatusIs(absl::StatusCode::kNotFound));
  }
}

TEST_P(NamesConformance, FreeBytesIsOfAPlaceThatIsThere) {
  SW_ASSERT_OK_AND_ASSIGN(const uint64_t free, storage_.FreeBytes(At(".")));
  EXPECT_GT(free, 0u);
  EXPECT_THAT(storage_.FreeBytes(At("no")), StatusIs(absl::StatusCode::kNotFound, HasSubstr(At("no"))));
}

TEST_P(NamesConformance, HasEveryCapability) {
  const StorageCapabilities capabilities = storage_.capabilities();
  EXPECT_TRUE(capabilities.write_at && capabilities.hard_links && capabilities.symlinks && capabilities.atomic_rename &&
              capabilities.locks);
}

SW_INSTANTIATE_STORAGE_SUITE(NamesConformance);

}  // namespace
}  // namespace shardwright::testing
