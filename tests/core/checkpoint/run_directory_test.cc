#include "shardwright/core/checkpoint/run_directory.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/checkpoint_runs.h"
#include "shardwright/tests/testing/fault_storage.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::AwkwardTensors;
using ::shardwright::testing::FaultKind;
using ::shardwright::testing::FaultStorage;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::Save;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::StorageCall;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunDirectoryTest : public ::testing::Test {
 protected:
  RunDirectoryTest() : storage_(MakeMemoryStorage()) { EXPECT_THAT(storage_->CreateDirectories("run"), IsOk()); }
  void SaveStep(absl::string_view name, int64_t step) {
    ASSERT_THAT(Save(*storage_, absl::StrCat("run/", name), AwkwardTensors(), {.step = step}), IsOk());
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const auto entries = storage_->List("run").value();
    for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
    return names;
  }
  std::unique_ptr<Storage> storage_;
};

TEST_F(RunDirectoryTest, ListsOnlyNamesOfTheExactFormNewestFirst) {
  for (const char* name :
       {"step-00000010", "step-00000009", "step-00000010-v1", "step-00000010-v10", "step-100000000", "step-10",
        "xstep-00000011", "step-00000011x", "step-00000012-v0", ".tmp-step-00000013-aa", "lastfoo"}) {
    ASSERT_THAT(storage_->CreateDirectory(absl::StrCat("run/", name)), IsOk());
  }
  ASSERT_THAT(storage_->Symlink("step-00000010", "run/step-00000099"), IsOk());
  ASSERT_THAT(WriteWholeFile(*storage_, "run/step-00000098", absl::string_view("a file")), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto checkpoints, ListCheckpoints(*storage_, "run"));
  std::vector<std::string> paths;
  for (const RunCheckpoint& checkpoint : checkpoints) paths.push_back(checkpoint.path);
  EXPECT_THAT(paths, ElementsAre("run/step-100000000", "run/step-00000010-v10", "run/step-00000010-v1",
                                 "run/step-00000010", "run/step-00000009"));
  EXPECT_EQ(checkpoints[1].step, 10);
  EXPECT_EQ(checkpoints[1].version, 10);
  EXPECT_THAT(ListCheckpoints(*storage_, "nope"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nope")));
}

TEST_F(RunDirectoryTest, ResumesFromTheNewestIntactOne) {
  SaveStep("step-00000001", 1);
  SaveStep("step-00000002", 2);
  SaveStep("step-00000002-v1", 2);
  ASSERT_THAT(storage_->RemoveFile("run/step-00000002-v1/model-00000-of-00001.safetensors"), IsOk());
  ASSERT_THAT(storage_->CreateDirectory("run/step-00000003"), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const ResumeChoice choice, FindResumeCheckpoint(*storage_, "run"));
  EXPECT_EQ(choice.path, "run/step-00000002");
  EXPECT_EQ(choice.manifest->data().progress.step, 2);
  EXPECT_THAT(choice.skipped, ElementsAre(AllOf(HasSubstr("step-00000003: "), HasSubstr("unfinished")),
                                          AllOf(HasSubstr("step-00000002-v1: "), HasSubstr("model-00000"))));
}

TEST_F(RunDirectoryTest, NothingToResumeFrom) {
  SW_ASSERT_OK_AND_ASSIGN(const ResumeChoice empty, FindResumeCheckpoint(*storage_, "run"));
  EXPECT_EQ(empty.path, "");
  EXPECT_EQ(empty.manifest, nullptr);
  SW_ASSERT_OK_AND_ASSIGN(const ResumeChoice absent, FindResumeCheckpoint(*storage_, "nope"));
  EXPECT_EQ(absent.path, "");
}

TEST_F(RunDirectoryTest, OnlyDamagedOnesAreAnErrorNotAFreshStart) {
  SaveStep("step-00000001", 1);
  ASSERT_THAT(storage_->RemoveFile("run/step-00000001/manifest.pb"), IsOk());
  EXPECT_THAT(FindResumeCheckpoint(*storage_, "run"),
              StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("step-00000001: "), HasSubstr("none of 1"))));
}

TEST_F(RunDirectoryTest, WhatCannotBeReadIsNotPassedOver) {
  SaveStep("step-00000001", 1);
  SaveStep("step-00000002", 2);
  FaultStorage storage(*storage_);
  storage.FailNext(StorageCall::kOpenRead, FaultKind::kIoError);
  EXPECT_THAT(FindResumeCheckpoint(storage, "run"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("step-00000002")));
  storage.FailNext(StorageCall::kReadAt, FaultKind::kIoError, 1);
  EXPECT_THAT(FindResumeCheckpoint(storage, "run"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(RunDirectoryTest, FreshPathsCountVersions) {
  EXPECT_THAT(FreshCheckpointPath(*storage_, "run", 7), IsOkAndHolds("run/step-00000007"));
  ASSERT_THAT(storage_->CreateDirectory("run/step-00000007"), IsOk());
  EXPECT_THAT(FreshCheckpointPath(*storage_, "run", 7), IsOkAndHolds("run/step-00000007-v1"));
  ASSERT_THAT(storage_->Symlink("elsewhere", "run/step-00000007-v1"), IsOk());
  EXPECT_THAT(FreshCheckpointPath(*storage_, "run", 7), IsOkAndHolds("run/step-00000007-v2"));
  EXPECT_THAT(FreshCheckpointPath(*storage_, "nope", 7), IsOkAndHolds("nope/step-00000007"));
  EXPECT_THAT(FreshCheckpointPath(*storage_, "run", -1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(RunDirectoryTest, LinksAreRelativeAndMove) {
  SaveStep("step-00000001", 1);
  SaveStep("step-00000002", 2);
  ASSERT_THAT(PointLink(*storage_, "run", "last", "run/step-00000001"), IsOk());
  EXPECT_THAT(storage_->ReadLink("run/last"), IsOkAndHolds("step-00000001"));
  ASSERT_THAT(PointLink(*storage_, "run/", "last", "run/step-00000002/"), IsOk());
  EXPECT_THAT(storage_->ReadLink("run/last"), IsOkAndHolds("step-00000002"));
  EXPECT_THAT(Names(), ElementsAre("last", "step-00000001", "step-00000002"));
}

TEST_F(RunDirectoryTest, LinksReplaceNothingButLinks) {
  SaveStep("step-00000001", 1);
  ASSERT_THAT(storage_->CreateDirectory("run/best"), IsOk());
  ASSERT_THAT(WriteWholeFile(*storage_, "run/notes", absl::string_view("mine")), IsOk());
  for (const char* name : {"best", "notes"}) {
    EXPECT_THAT(PointLink(*storage_, "run", name, "run/step-00000001"),
                StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(name)));
  }
  for (const char* name : {"", ".", "..", "a/b", "step-00000009", ".tmp-x-1", ".lock"}) {
    EXPECT_THAT(PointLink(*storage_, "run", name, "run/step-00000001"), StatusIs(absl::StatusCode::kInvalidArgument))
        << name;
  }
  EXPECT_THAT(PointLink(*storage_, "run", "last", "run/step-00000009"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(PointLink(*storage_, "run", "last", "run/notes"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ReadWholeFile(*storage_, "run/notes", 100), IsOkAndHolds("mine"));
}

TEST_F(RunDirectoryTest, ALinkThatCannotBePlacedLeavesTheOldOne) {
  SaveStep("step-00000001", 1);
  SaveStep("step-00000002", 2);
  ASSERT_THAT(PointLink(*storage_, "run", "last", "run/step-00000001"), IsOk());
  FaultStorage storage(*storage_);
  storage.FailNext(StorageCall::kRename, FaultKind::kIoError);
  EXPECT_THAT(PointLink(storage, "run", "last", "run/step-00000002"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("pointing run/last at step-00000002")));
  EXPECT_THAT(storage_->ReadLink("run/last"), IsOkAndHolds("step-00000001"));
  EXPECT_THAT(Names(), ElementsAre("last", "step-00000001", "step-00000002"));
}

TEST_F(RunDirectoryTest, PartialsGoTheRestStays) {
  SaveStep("step-00000001", 1);
  SaveStep(".tmp-step-00000002-00ff", 2);
  ASSERT_THAT(storage_->Symlink("step-00000001", "run/.tmp-last-00ff"), IsOk());
  ASSERT_THAT(storage_->Symlink("../run/step-00000001", "run/.tmp-step-00000002-00ff/link"), IsOk());
  ASSERT_THAT(WriteWholeFile(*storage_, "run/.tmpfile", absl::string_view("mine")), IsOk());
  ASSERT_THAT(RemovePartials(*storage_, "run"), IsOk());
  EXPECT_THAT(Names(), ElementsAre(".tmpfile", "step-00000001"));
  EXPECT_THAT(testing::CheckHolds(*storage_, "run/step-00000001", AwkwardTensors()), IsOk());
  EXPECT_THAT(RemovePartials(*storage_, "nope"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(RunDirectoryTest, OnePartialThatStaysDoesNotKeepTheOthers) {
  ASSERT_THAT(storage_->CreateDirectory("run/.tmp-a-1"), IsOk());
  ASSERT_THAT(storage_->CreateDirectory("run/.tmp-b-1"), IsOk());
  FaultStorage storage(*storage_);
  storage.FailNext(StorageCall::kRemoveDirectory, FaultKind::kIoError);
  EXPECT_THAT(RemovePartials(storage, "run"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(".tmp-a-1")));
  EXPECT_THAT(Names(), ElementsAre(".tmp-a-1"));
}

TEST_F(RunDirectoryTest, OneRunAtATime) {
  {
    SW_ASSERT_OK_AND_ASSIGN(const auto lock, LockRunDirectory(*storage_, "run/new"));
    EXPECT_THAT(
        LockRunDirectory(*storage_, "run/new"),
        StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr("run/new"), HasSubstr(absl::StrCat(::getpid())))));
  }
  EXPECT_THAT(LockRunDirectory(*storage_, "run/new"), IsOk());
}

}  // namespace
}  // namespace shardwright
