// Every operation of a load fails once: all ranks end with that error, and nothing on disk changes.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/tests/fault/fault_run.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LoadErrorTest, EveryOperationOfALoad) {
  const FaultCase c{"load", SaveLayout::kSharded, 3, false};
  for (const bool verify_first : {true, false}) {
    for (uint64_t k = 0;; ++k) {
      SCOPED_TRACE(absl::StrCat(verify_first, " ", k));
      FaultRun run(c);
      FaultStorage storage(run.base());
      storage.FailAt(k, FaultKind::kIoError);
      LoadSetup setup{.rule = &RowShardBox, .world_size = 2};
      setup.options.verify_first = verify_first;
      const Loaded loaded = Load(storage, run.old_path(), run.old_tensors(), setup);
      if (storage.operations() <= k) {
        ASSERT_THAT(loaded.status(), IsOk());
        EXPECT_GT(k, 10u);
        EXPECT_THAT(loaded.states[1]->Differences(run.old_tensors()), IsEmpty());
        break;
      }
      EXPECT_THAT(loaded.statuses, Each(StatusIs(absl::StatusCode::kUnavailable)));
    }
  }
}

TEST(LoadErrorTest, AnErrorOfOneRankNamesItOnTheOthers) {
  const FaultCase c{"load", SaveLayout::kSharded, 3, false};
  FaultRun run(c);
  FaultStorage storage(run.base());
  // Both ranks open the manifest, then one of them fails to open a data file.
  storage.FailNext(StorageCall::kOpenRead, FaultKind::kIoError, 2);
  const Loaded loaded = Load(storage, run.old_path(), run.old_tensors(), {.rule = &RowShardBox, .world_size = 2});
  EXPECT_THAT(loaded.statuses,
              Each(StatusIs(absl::StatusCode::kUnavailable, HasSubstr("loading runs/r/step-00000005"))));
  int others = 0;
  for (const absl::Status& status : loaded.statuses) others += absl::StrContains(status.message(), ": rank ") ? 1 : 0;
  EXPECT_EQ(others, 1);
}

}  // namespace
}  // namespace shardwright::testing
