// The process or the machine dies at every operation of a save. The run's directory then resumes from the old
// checkpoint or from the new one, whole, and the next save works.
#include <algorithm>

#include "shardwright/tests/fault/fault_run.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

class CrashTest : public ::testing::TestWithParam<FaultCase> {
 protected:
  // Dies at every operation, by `kind`; `die` says what is left. Returns at how many places the new one had survived.
  void DieEverywhere(FaultKind kind, const std::function<void(FaultStorage&, uint64_t k)>& die) {
    const uint64_t operations = CountOperations(GetParam());
    ASSERT_GT(operations, 20u);
    int kept_new = 0, kept_old = 0;
    for (uint64_t k = 0; k < operations; ++k) {
      SCOPED_TRACE(absl::StrCat("operation ", k, " of ", operations));
      FaultRun run(GetParam());
      FaultStorage storage(run.base());
      storage.FailAt(k, kind);
      const std::vector<absl::Status> statuses = run.SaveNext(storage);
      const bool saved = std::all_of(statuses.begin(), statuses.end(), [](const absl::Status& s) { return s.ok(); });
      EXPECT_FALSE(saved && k + 1 < operations) << "nobody noticed";
      die(storage, k);
      (run.ExpectResumes(/*may_be_old=*/!saved, /*may_be_new=*/true) ? kept_new : kept_old) += 1;
      run.ExpectLastIsIntact();
      run.ExpectALaterSaveWorks();
      if (HasFailure()) return;
    }
    // Early deaths keep the old one, late ones (while the link is made) the new one.
    EXPECT_GT(kept_old, 0);
    EXPECT_GT(kept_new, 0);
  }
};

TEST_P(CrashTest, PowerLossDropsWhatWasNotSynced) {
  DieEverywhere(FaultKind::kCrash, [](FaultStorage& storage, uint64_t) { ASSERT_THAT(storage.Crash(), IsOk()); });
}

TEST_P(CrashTest, PowerLossKeepsSomeOfWhatWasNotSynced) {
  DieEverywhere(FaultKind::kTornWrite,
                [](FaultStorage& storage, uint64_t k) { ASSERT_THAT(storage.CrashKeepingSome(k), IsOk()); });
}

TEST_P(CrashTest, AKilledProcessLeavesAllThatWasWritten) {
  DieEverywhere(FaultKind::kTornWrite, [](FaultStorage& storage, uint64_t) { storage.KillProcess(); });
}

TEST_P(CrashTest, WhatWasReportedSavedSurvivesPowerLoss) {
  FaultRun run(GetParam());
  FaultStorage storage(run.base());
  for (const absl::Status& status : run.SaveNext(storage)) ASSERT_THAT(status, IsOk());
  ASSERT_THAT(storage.Crash(), IsOk());
  EXPECT_TRUE(run.ExpectResumes(/*may_be_old=*/false, /*may_be_new=*/true));
  EXPECT_THAT(run.base().ReadLink("runs/r/last"), IsOkAndHolds(BaseName(run.new_path())));
  EXPECT_THAT(run.Temporaries(), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, CrashTest, ::testing::ValuesIn(AllFaultCases()), FaultCaseName);

TEST(FirstSaveCrashTest, ARunsFirstSaveInADirectoryThatIsMadeForIt) {
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  const FaultCase c{"first", SaveLayout::kSharded, 2, false};
  for (uint64_t k = 0;; ++k) {
    SCOPED_TRACE(k);
    FaultRun run(c);
    FaultStorage storage(run.base());
    storage.FailAt(k, FaultKind::kCrash);
    const absl::Status saved = Save(storage, "runs/fresh/step-00000001", tensors, {.world_size = 2});
    const bool reached = storage.operations() > k;
    ASSERT_THAT(storage.Crash(), IsOk());
    if (Exists(run.base(), "runs/fresh/step-00000001")) {
      EXPECT_THAT(CheckHolds(run.base(), "runs/fresh/step-00000001", tensors), IsOk());
    } else {
      EXPECT_FALSE(saved.ok()) << "reported as saved, and gone";
    }
    if (!reached) break;
  }
}

}  // namespace
}  // namespace shardwright::testing
