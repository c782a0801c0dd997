// Every operation of a save fails once: the error is named on every rank, nothing is left over, the old checkpoint is
// intact.
#include <algorithm>

#include "absl/strings/match.h"
#include "shardwright/tests/fault/fault_run.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class IoErrorTest : public ::testing::TestWithParam<FaultCase> {
 protected:
  void FailEverywhere(FaultKind kind, absl::StatusCode code) {
    const uint64_t operations = CountOperations(GetParam());
    int failures = 0;
    for (uint64_t k = 0; k < operations; ++k) {
      SCOPED_TRACE(absl::StrCat("operation ", k, " of ", operations));
      FaultRun run(GetParam());
      FaultStorage storage(run.base());
      storage.FailAt(k, kind);
      const std::vector<absl::Status> statuses = run.SaveNext(storage);
      const std::string what = storage.log()[k];
      SCOPED_TRACE(what);
      if (statuses[0].ok()) {
        // A look that failed where a wrong answer does no harm.
        EXPECT_THAT(statuses, Each(IsOk()));
      } else {
        ++failures;
        EXPECT_THAT(statuses,
                    Each(StatusIs(code, AnyOf(HasSubstr("saving runs/r/step-"), HasSubstr("pointing runs/r/last"),
                                              HasSubstr("naming a checkpoint in runs/r")))));
      }
      EXPECT_THAT(run.Temporaries(), IsEmpty());
      run.ExpectResumes(/*may_be_old=*/!statuses[0].ok(), /*may_be_new=*/true);
      run.ExpectLastIsIntact();
      run.ExpectALaterSaveWorks();
      if (HasFailure()) return;
    }
    EXPECT_GT(failures, kind == FaultKind::kIoError ? static_cast<int>(operations) * 3 / 4 : 5);
  }
};

TEST_P(IoErrorTest, EveryOperation) {
  FailEverywhere(FaultKind::kIoError, absl::StatusCode::kUnavailable);
}

TEST_P(IoErrorTest, EveryOperationThatNeedsSpace) {
  FailEverywhere(FaultKind::kNoSpace, absl::StatusCode::kResourceExhausted);
}

TEST_P(IoErrorTest, EveryWriteIsCutShort) {
  FailEverywhere(FaultKind::kShortWrite, absl::StatusCode::kResourceExhausted);
}

INSTANTIATE_TEST_SUITE_P(All, IoErrorTest, ::testing::ValuesIn(AllFaultCases()), FaultCaseName);

TEST(IoErrorMessageTest, SaysWhatFailedWhereAndOnWhichRank) {
  const FaultCase c{"three", SaveLayout::kSharded, 3, false};
  for (const StorageCall call : {StorageCall::kSync, StorageCall::kClose, StorageCall::kWriteAt}) {
    FaultRun run(c);
    FaultStorage storage(run.base());
    storage.FailNext(call, FaultKind::kIoError);
    const std::vector<absl::Status> statuses = run.SaveNext(storage);
    EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kUnavailable, HasSubstr(".safetensors"))));
    int own = 0;
    for (const absl::Status& status : statuses) own += absl::StrContains(status.message(), ": rank ") ? 0 : 1;
    EXPECT_EQ(own, 1) << statuses[0];
  }
}

}  // namespace
}  // namespace shardwright::testing
