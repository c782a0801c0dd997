#include "shardwright/tests/testing/fault_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/tests/testing/status_matchers.h"
#include "shardwright/tests/testing/temp_folder.h"

namespace shardwright::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kPlenty = 1 << 30;

absl::Span<const char> Bytes(absl::string_view text) {
  return {text.data(), text.size()};
}

// Every test runs over memory and over a real file system.
class FaultStorageTest : public ::testing::TestWithParam<bool> {
 protected:
  std::string At(absl::string_view name) const { return absl::StrCat(root_, "/", name); }

  void Write(Storage& storage, absl::string_view name, absl::string_view text) {
    ASSERT_THAT(WriteWholeFile(storage, At(name), Bytes(text)), IsOk());
  }
  absl::StatusOr<std::string> Read(absl::string_view name) { return ReadWholeFile(*base_, At(name), kPlenty); }
  std::vector<std::string> Names(absl::string_view folder) {
    std::vector<std::string> names;
    const absl::StatusOr<std::vector<DirectoryEntry>> entries = base_->List(At(folder));
    EXPECT_THAT(entries, IsOk());
    for (size_t i = 0; entries.ok() && i < entries->size(); ++i) names.push_back((*entries)[i].name);
    return names;
  }

  const bool posix_ = GetParam();
  const TempFolder folder_;
  const std::unique_ptr<Storage> base_ = posix_ ? MakePosixStorage() : MakeMemoryStorage();
  const std::string root_ = posix_ ? folder_.path() : "";
  FaultStorage faults_{*base_};
};

INSTANTIATE_TEST_SUITE_P(All, FaultStorageTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Posix" : "Memory"; });

TEST_P(FaultStorageTest, CountsAndLogsOperations) {
  Write(faults_, "f", "12345");
  EXPECT_THAT(faults_.log(), ElementsAre("CreateFile " + At("f"), "WriteAt " + At("f") + " [0, 5)", "Sync " + At("f"),
                                         "Close " + At("f")));
  EXPECT_EQ(faults_.operations(), 4u);
}

TEST_P(FaultStorageTest, ACrashStopsEverythingFromThenOn) {
  faults_.FailAt(2, FaultKind::kCrash);
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.CreateFile(At("f")));
  EXPECT_THAT(file->WriteAt(0, Bytes("kept")), IsOk());
  EXPECT_THAT(file->WriteAt(4, Bytes("lost")), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(At("f"))));
  EXPECT_THAT(file->Sync(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(file->Close(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(faults_.RemoveFile(At("f")), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(faults_.Info(At("f")), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(faults_.operations(), 3u);
  // The process is dead, the machine is not: its memory still has what was written.
  EXPECT_THAT(Read("f"), IsOkAndHolds("kept"));
}

TEST_P(FaultStorageTest, ATornWriteArrivesInHalf) {
  faults_.FailAt(1, FaultKind::kTornWrite);
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.CreateFile(At("f")));
  EXPECT_THAT(file->WriteAt(0, Bytes("12345678")), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Read("f"), IsOkAndHolds("1234"));
  EXPECT_THAT(file->Sync(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_P(FaultStorageTest, AnIoErrorHitsOneOperation) {
  faults_.FailAt(1, FaultKind::kIoError);
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.CreateFile(At("f")));
  EXPECT_THAT(file->WriteAt(0, Bytes("x")), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Input/output error")));
  EXPECT_THAT(Read("f"), IsOkAndHolds(""));
  EXPECT_THAT(file->WriteAt(0, Bytes("y")), IsOk());
  EXPECT_THAT(Read("f"), IsOkAndHolds("y"));
}

TEST_P(FaultStorageTest, ReadsFailToo) {
  Write(faults_, "f", "x");
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.OpenRead(At("f")));
  faults_.FailNext(StorageCall::kReadAt, FaultKind::kIoError, /*skip=*/1);
  char out;
  EXPECT_THAT(file->ReadAt(0, {&out, 1}), IsOk());
  EXPECT_THAT(file->ReadAt(0, {&out, 1}), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(At("f"))));
}

TEST_P(FaultStorageTest, AFullDiskStaysFullForWhatTakesSpace) {
  Write(faults_, "f", "x");
  faults_.FailAt(faults_.operations(), FaultKind::kNoSpace);
  const auto full = StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("No space left"));
  EXPECT_THAT(faults_.CreateFile(At("g")), full);
  EXPECT_THAT(faults_.CreateDirectory(At("d")), full);
  EXPECT_THAT(faults_.Symlink("f", At("l")), full);
  EXPECT_THAT(faults_.FreeBytes(At("f")), IsOkAndHolds(0u));
  EXPECT_THAT(faults_.Rename(At("f"), At("h")), IsOk());
  EXPECT_THAT(faults_.RemoveFile(At("h")), IsOk());
  faults_.ClearFaults();
  EXPECT_THAT(faults_.CreateFile(At("g")), IsOk());
}

TEST_P(FaultStorageTest, TheDiskMayTurnOutFullAtClose) {
  faults_.FailNext(StorageCall::kClose, FaultKind::kNoSpace);
  EXPECT_THAT(WriteWholeFile(faults_, At("f"), Bytes("x")),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("Close")));
  EXPECT_THAT(Names(""), IsEmpty());
}

TEST_P(FaultStorageTest, AFailedCloseStillCloses) {
  faults_.FailNext(StorageCall::kClose, FaultKind::kIoError);
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.CreateFile(At("f")));
  EXPECT_THAT(file->Close(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(file->WriteAt(0, Bytes("x")), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_P(FaultStorageTest, AShortWriteLeavesHalfAndSaysSo) {
  faults_.FailAt(0, FaultKind::kShortWrite);
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.CreateFile(At("f")));
  EXPECT_THAT(file->WriteAt(0, Bytes("12345678")), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Read("f"), IsOkAndHolds("1234"));
  EXPECT_THAT(file->WriteAt(4, Bytes("5678")), IsOk());
}

TEST_P(FaultStorageTest, SpaceRunsOutAfterSoManyBytesAndComesBack) {
  faults_.LimitSpace(10);
  Write(faults_, "f", "123456");
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.CreateFile(At("g")));
  EXPECT_THAT(file->Allocate(5), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(file->WriteAt(0, Bytes("abcdef")), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Read("g"), IsOkAndHolds("abcd"));
  EXPECT_THAT(file->WriteAt(0, Bytes("ABCD")), IsOk());
  EXPECT_THAT(faults_.RemoveFile(At("f")), IsOk());
  EXPECT_THAT(faults_.FreeBytes(At("g")), IsOkAndHolds(6u));
  EXPECT_THAT(file->WriteAt(4, Bytes("ef")), IsOk());
}

TEST_P(FaultStorageTest, PowerLossDropsUnsyncedBytes) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.CreateFile(At("f")));
  ASSERT_THAT(file->WriteAt(0, Bytes("synced")), IsOk());
  ASSERT_THAT(file->Sync(), IsOk());
  ASSERT_THAT(file->WriteAt(0, Bytes("SYNCED, NOT")), IsOk());
  ASSERT_THAT(faults_.SyncDirectory(At("")), IsOk());
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_THAT(Read("f"), IsOkAndHolds("synced"));
}

TEST_P(FaultStorageTest, PowerLossDropsNamesOfUnsyncedDirectories) {
  Write(faults_, "f", "synced itself, not its name");
  ASSERT_THAT(faults_.CreateDirectories(At("d/e")), IsOk());
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_THAT(Names(""), IsEmpty());
}

TEST_P(FaultStorageTest, ADirectorysNamesAreSyncedInItsParent) {
  ASSERT_THAT(faults_.CreateDirectories(At("d/e")), IsOk());
  Write(faults_, "d/e/f", "x");
  ASSERT_THAT(faults_.SyncDirectory(At("d/e")), IsOk());
  ASSERT_THAT(faults_.SyncDirectory(At("")), IsOk());
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_THAT(Names(""), ElementsAre("d"));
  EXPECT_THAT(Names("d"), IsEmpty());
}

TEST_P(FaultStorageTest, PowerLossBringsBackWhatWasRemoved) {
  Write(*base_, "old", "was here before");
  ASSERT_THAT(base_->CreateDirectories(At("d/e")), IsOk());
  Write(*base_, "d/e/f", "deep");
  ASSERT_THAT(base_->Symlink("old", At("link")), IsOk());
  ASSERT_THAT(faults_.RemoveFile(At("old")), IsOk());
  ASSERT_THAT(faults_.RemoveFile(At("link")), IsOk());
  ASSERT_THAT(RemoveTree(faults_, At("d")), IsOk());
  EXPECT_THAT(Names(""), IsEmpty());
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_THAT(Read("old"), IsOkAndHolds("was here before"));
  EXPECT_THAT(Read("d/e/f"), IsOkAndHolds("deep"));
  EXPECT_THAT(base_->ReadLink(At("link")), IsOkAndHolds("old"));
}

TEST_P(FaultStorageTest, PowerLossUndoesARenameWithWhatItReplaced) {
  Write(*base_, "a", "new");
  Write(*base_, "b", "old");
  ASSERT_THAT(faults_.Rename(At("a"), At("b")), IsOk());
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_THAT(Read("a"), IsOkAndHolds("new"));
  EXPECT_THAT(Read("b"), IsOkAndHolds("old"));
}

TEST_P(FaultStorageTest, PowerLossMovesADirectoryBack) {
  ASSERT_THAT(faults_.CreateDirectory(At("tmp")), IsOk());
  Write(faults_, "tmp/f", "x");
  ASSERT_THAT(faults_.SyncDirectory(At("tmp")), IsOk());
  ASSERT_THAT(faults_.SyncDirectory(At("")), IsOk());
  ASSERT_THAT(faults_.Rename(At("tmp"), At("done")), IsOk());
  Write(faults_, "done/unsynced", "x");
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_THAT(Names(""), ElementsAre("tmp"));
  EXPECT_THAT(Names("tmp"), ElementsAre("f"));
}

TEST_P(FaultStorageTest, ARenameBetweenDirectoriesIsSyncedByEither) {
  for (const char* synced : {"from", "to"}) {
    ASSERT_THAT(base_->CreateDirectories(At("from")), IsOk());
    ASSERT_THAT(base_->CreateDirectories(At("to")), IsOk());
    Write(*base_, "from/f", "x");
    ASSERT_THAT(faults_.Rename(At("from/f"), At("to/g")), IsOk());
    ASSERT_THAT(faults_.SyncDirectory(At(synced)), IsOk());
    ASSERT_THAT(faults_.Crash(), IsOk());
    EXPECT_THAT(Names("from"), IsEmpty());
    EXPECT_THAT(Read("to/g"), IsOkAndHolds("x"));
    faults_.Restart();
    ASSERT_THAT(faults_.RemoveFile(At("to/g")), IsOk());
    ASSERT_THAT(faults_.SyncDirectory(At("to")), IsOk());
  }
}

TEST_P(FaultStorageTest, ASyncedRenameTakesTheOlderCreateAlong) {
  ASSERT_THAT(base_->CreateDirectories(At("from")), IsOk());
  ASSERT_THAT(base_->CreateDirectories(At("to")), IsOk());
  Write(faults_, "from/f", "x");
  ASSERT_THAT(faults_.Rename(At("from/f"), At("to/f")), IsOk());
  ASSERT_THAT(faults_.SyncDirectory(At("to")), IsOk());
  // The create in `from` is older than the rename and must not come back.
  ASSERT_THAT(faults_.SyncDirectory(At("from")), IsOk());
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_THAT(Names("from"), IsEmpty());
  EXPECT_THAT(Read("to/f"), IsOkAndHolds("x"));
}

TEST_P(FaultStorageTest, HardLinksStayOneFileThroughACrash) {
  Write(faults_, "a", "synced");
  ASSERT_THAT(faults_.Link(At("a"), At("b")), IsOk());
  ASSERT_THAT(faults_.SyncDirectory(At("")), IsOk());
  ASSERT_THAT(faults_.Link(At("a"), At("c")), IsOk());
  ASSERT_THAT(faults_.RemoveFile(At("b")), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.OpenWrite(At("c")));
  ASSERT_THAT(file->WriteAt(0, Bytes("UNSYNCED")), IsOk());
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_THAT(Names(""), ElementsAre("a", "b"));
  EXPECT_THAT(Read("a"), IsOkAndHolds("synced"));
  EXPECT_THAT(Read("b"), IsOkAndHolds("synced"));
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo info, base_->Info(At("a")));
  EXPECT_EQ(info.links, 2u);
}

TEST_P(FaultStorageTest, LinksThroughFoldersAreFollowed) {
  ASSERT_THAT(base_->CreateDirectory(At("step-1")), IsOk());
  ASSERT_THAT(base_->Symlink("step-1", At("last")), IsOk());
  Write(faults_, "last/f", "x");
  ASSERT_THAT(faults_.SyncDirectory(At("step-1")), IsOk());
  Write(faults_, "step-1/g", "x");
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_THAT(Names("step-1"), ElementsAre("f"));
}

TEST_P(FaultStorageTest, OpenFilesDieWithTheirMachineAndLocksAreFreed) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.CreateFile(At("f")));
  SW_ASSERT_OK_AND_ASSIGN(const auto reader, faults_.OpenRead(At("f")));
  SW_ASSERT_OK_AND_ASSIGN(const auto held, faults_.Lock(At("lock"), "me"));
  ASSERT_THAT(faults_.Crash(), IsOk());
  faults_.Restart();
  EXPECT_THAT(file->WriteAt(0, Bytes("x")), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(reader->ReadAt(0, {}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(faults_.Lock(At("lock"), "next"), IsOk());
  Write(faults_, "f", "new life");
  EXPECT_THAT(Read("f"), IsOkAndHolds("new life"));
}

TEST_P(FaultStorageTest, KillingTheProcessKeepsWhatWasWritten) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, faults_.CreateFile(At("f")));
  ASSERT_THAT(file->WriteAt(0, Bytes("x")), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto held, faults_.Lock(At("lock"), "me"));
  faults_.KillProcess();
  EXPECT_THAT(file->WriteAt(1, Bytes("y")), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Read("f"), IsOkAndHolds("x"));
  EXPECT_THAT(base_->Lock(At("lock"), "next"), IsOk());
}

// Publishing by temp, sync, rename, sync: at every place and with every kind of crash, the old or the new is there.
absl::Status Publish(Storage& storage, const std::string& folder, absl::string_view text, bool sync) {
  const std::string temp = JoinPath(folder, ".tmp");
  SW_RETURN_IF_ERROR(RemoveTree(storage, temp));
  {
    SW_ASSIGN_OR_RETURN(const std::unique_ptr<WriteFile> file, storage.CreateFile(temp));
    SW_RETURN_IF_ERROR(file->WriteAt(0, Bytes(text)));
    if (sync) {
      SW_RETURN_IF_ERROR(file->Sync());
    }
    SW_RETURN_IF_ERROR(file->Close());
  }
  SW_RETURN_IF_ERROR(storage.Rename(temp, JoinPath(folder, "current")));
  return storage.SyncDirectory(folder);
}

TEST_P(FaultStorageTest, APublishedFileIsTheOldOrTheNewAtEveryCrash) {
  ASSERT_THAT(base_->CreateDirectory(At("p")), IsOk());
  for (const FaultKind kind : {FaultKind::kCrash, FaultKind::kTornWrite}) {
    for (uint64_t k = 0;; ++k) {
      ASSERT_THAT(Publish(faults_, At("p"), "old text", true), IsOk());
      faults_.FailAt(faults_.operations() + k, kind);
      const absl::Status published = Publish(faults_, At("p"), "new", true);
      ASSERT_THAT(k % 2 == 0 ? faults_.Crash() : faults_.CrashKeepingSome(k), IsOk());
      if (published.ok()) {
        EXPECT_THAT(Read("p/current"), IsOkAndHolds("new"));
        EXPECT_GT(k, 5u);
        break;
      }
      EXPECT_THAT(Read("p/current"), IsOkAndHolds(AnyOf("old text", "new"))) << "operation " << k;
      faults_.Restart();
    }
    faults_.Restart();
  }
}

TEST_P(FaultStorageTest, AMissingSyncIsFound) {
  ASSERT_THAT(base_->CreateDirectory(At("p")), IsOk());
  ASSERT_THAT(Publish(faults_, At("p"), "old", true), IsOk());
  ASSERT_THAT(Publish(faults_, At("p"), "new", /*sync=*/false), IsOk());
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_THAT(Read("p/current"), IsOkAndHolds(""));
}

// One folder, as simply as it can be told: names and bytes, now and durable.
struct Expected {
  std::map<std::string, int> now, durable;  // name -> file
  std::map<int, std::string> now_bytes, durable_bytes;
};

class RandomOperations {
 public:
  RandomOperations(FaultStorage& faults, std::string root, uint64_t seed)
      : faults_(faults), root_(std::move(root)), random_(seed) {}

  void Step() {
    const std::string name = absl::StrCat("f", random_() % 5);
    const std::string other = absl::StrCat("f", random_() % 5);
    switch (random_() % 7) {
      case 0:
        if (Check(faults_.CreateFile(At(name)).status(), expected_.now.count(name) == 0))
          expected_.now[name] = ++files_;
        break;
      case 1:
        WriteTo(name, /*sync=*/false);
        break;
      case 2:
        WriteTo(name, /*sync=*/true);
        break;
      case 3:
        if (Check(faults_.RemoveFile(At(name)), expected_.now.count(name) > 0)) expected_.now.erase(name);
        break;
      case 4:
        if (Check(faults_.Rename(At(name), At(other)), expected_.now.count(name) > 0)) Move(name, other);
        break;
      case 5:
        if (Check(faults_.Link(At(name), At(other)),
                  expected_.now.count(name) > 0 && expected_.now.count(other) == 0)) {
          expected_.now[other] = expected_.now[name];
        }
        break;
      case 6:
        EXPECT_THAT(faults_.SyncDirectory(root_ + "/"), IsOk());
        expected_.durable = expected_.now;
        break;
    }
  }

  std::map<std::string, std::string> DurableFiles() {
    std::map<std::string, std::string> files;
    for (const auto& [name, file] : expected_.durable) files[name] = expected_.durable_bytes[file];
    return files;
  }
  void Crashed() {
    expected_.now = expected_.durable;
    expected_.now_bytes = expected_.durable_bytes;
  }

 private:
  std::string At(const std::string& name) const { return root_ + "/" + name; }

  bool Check(const absl::Status& status, bool expected) {
    EXPECT_EQ(status.ok(), expected) << status;
    return status.ok();
  }

  void WriteTo(const std::string& name, bool sync) {
    absl::StatusOr<std::unique_ptr<WriteFile>> file = faults_.OpenWrite(At(name));
    if (!Check(file.status(), expected_.now.count(name) > 0)) return;
    std::string& bytes = expected_.now_bytes[expected_.now[name]];
    const size_t offset = random_() % 3;
    const std::string text(1 + random_() % 4, static_cast<char>('a' + random_() % 26));
    bytes.resize(std::max(bytes.size(), offset + text.size()));
    bytes.replace(offset, text.size(), text);
    EXPECT_THAT((*file)->WriteAt(offset, Bytes(text)), IsOk());
    if (!sync) return;
    EXPECT_THAT((*file)->Sync(), IsOk());
    expected_.durable_bytes[expected_.now[name]] = bytes;
  }

  void Move(const std::string& from, const std::string& to) {
    const int file = expected_.now[from];
    if (expected_.now.count(to) > 0 && expected_.now[to] == file) return;
    expected_.now.erase(from);
    expected_.now[to] = file;
  }

  FaultStorage& faults_;
  const std::string root_;
  std::mt19937_64 random_;
  Expected expected_;
  int files_ = 0;
};

TEST_P(FaultStorageTest, RandomOperationsAndCrashesLeaveExactlyWhatIsDurable) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  ASSERT_THAT(base_->CreateDirectory(At("r")), IsOk());
  RandomOperations operations(faults_, At("r"), seed);
  for (int crash = 0; crash < 40 && !HasFailure(); ++crash) {
    for (uint64_t step = random() % 40; step > 0; --step) operations.Step();
    ASSERT_THAT(faults_.Crash(), IsOk());
    faults_.Restart();
    operations.Crashed();
    std::map<std::string, std::string> found;
    for (const std::string& name : Names("r")) found[name] = Read("r/" + name).value_or("(unreadable)");
    ASSERT_EQ(found, operations.DurableFiles());
  }
}

TEST_P(FaultStorageTest, WhatIsSyncedSurvivesEveryPartialLoss) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  ASSERT_THAT(base_->CreateDirectory(At("d")), IsOk());
  std::map<std::string, int> outcomes;
  for (uint64_t i = 0; i < 60; ++i) {
    Write(faults_, "d/synced", "durable");
    ASSERT_THAT(faults_.SyncDirectory(At("d")), IsOk());
    Write(faults_, "d/maybe", "bytes synced, name not");
    ASSERT_THAT(faults_.CrashKeepingSome(seed + i), IsOk());
    faults_.Restart();
    EXPECT_THAT(Read("d/synced"), IsOkAndHolds("durable"));
    ++outcomes[Read("d/maybe").value_or("absent")];
    ASSERT_THAT(RemoveTree(*base_, At("d/synced")), IsOk());
    ASSERT_THAT(RemoveTree(*base_, At("d/maybe")), IsOk());
  }
  // Both happen, and nothing else.
  EXPECT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes.count("absent"), 1u);
  EXPECT_EQ(outcomes.count("bytes synced, name not"), 1u);
}

TEST_P(FaultStorageTest, RanksMayUseItAtOnce) {
  constexpr int kRanks = 4;
  std::vector<std::thread> ranks;
  ranks.reserve(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int i = 0; i < 20; ++i) Write(faults_, absl::StrCat(rank, "-", i), "x");
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(faults_.operations(), kRanks * 20 * 4u);
  ASSERT_THAT(faults_.SyncDirectory(At("")), IsOk());
  ASSERT_THAT(faults_.Crash(), IsOk());
  EXPECT_EQ(Names("").size(), kRanks * 20u);
}

}  // namespace
}  // namespace shardwright::testing
