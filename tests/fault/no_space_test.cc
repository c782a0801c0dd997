// A disk that fills up: refused before a byte of a tensor is written, nothing left over, the old checkpoint intact.
#include "absl/strings/match.h"
#include "shardwright/tests/fault/fault_run.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NoSpaceTest : public ::testing::TestWithParam<FaultCase> {};

TEST_P(NoSpaceTest, AnyAmountOfSpaceThatIsTooLittle) {
  bool fits = false;
  for (uint64_t space = 0; !fits; space += 701) {
    SCOPED_TRACE(space);
    FaultRun run(GetParam());
    FaultStorage storage(run.base());
    storage.LimitSpace(space);
    const std::vector<absl::Status> statuses = run.SaveNext(storage);
    fits = statuses[0].ok();
    if (!fits) {
      EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("saving runs/r/step-"))));
      EXPECT_THAT(run.Temporaries(), IsEmpty());
    }
    run.ExpectResumes(/*may_be_old=*/!fits, /*may_be_new=*/fits);
    if (HasFailure()) return;
    ASSERT_LT(space, 100000u);
  }
}

TEST_P(NoSpaceTest, IsNoticedBeforeTensorsAreWritten) {
  FaultRun run(GetParam());
  FaultStorage storage(run.base());
  storage.LimitSpace(4000);  // the headers, not the tensors
  EXPECT_THAT(run.SaveNext(storage), Each(StatusIs(absl::StatusCode::kResourceExhausted)));
  for (const std::string& operation : storage.log()) {
    if (absl::StartsWith(operation, "WriteAt")) {
      EXPECT_THAT(operation, HasSubstr("[0, "));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, NoSpaceTest, ::testing::ValuesIn(AllFaultCases()), FaultCaseName);

}  // namespace
}  // namespace shardwright::testing
