// A rank dies at every collective of a save or a load: the others end with an error that names it, the directory has
// the old checkpoint or the new one, and the next save works.
#include <atomic>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/tests/fault/fault_run.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::HasSubstr;

// Passes collectives on, until it dies at one of them.
class DyingCommunicator : public Communicator {
 public:
  DyingCommunicator(Communicator& base, int dies_at) : base_(base), left_(dies_at) {}
  bool dead() const { return left_ < 0; }

  int32_t rank() const override { return base_.rank(); }
  int32_t size() const override { return base_.size(); }
  absl::Status Barrier() override { return Dies() ? Death() : base_.Barrier(); }
  absl::Status Broadcast(void* data, int64_t count, DType dtype, int32_t root) override {
    return Dies() ? Death() : base_.Broadcast(data, count, dtype, root);
  }
  absl::StatusOr<std::unique_ptr<Work>> AllReduceAsync(void* data, int64_t count, DType dtype, ReduceOp op) override {
    if (Dies()) return Death();
    return base_.AllReduceAsync(data, count, dtype, op);
  }
  absl::StatusOr<std::unique_ptr<Work>> AllGatherAsync(void* data, absl::Span<const int64_t> counts,
                                                       DType dtype) override {
    if (Dies()) return Death();
    return base_.AllGatherAsync(data, counts, dtype);
  }
  absl::StatusOr<std::unique_ptr<Work>> ReduceScatterAsync(void* data, absl::Span<const int64_t> counts, DType dtype,
                                                           ReduceOp op) override {
    if (Dies()) return Death();
    return base_.ReduceScatterAsync(data, counts, dtype, op);
  }
  absl::StatusOr<std::vector<std::string>> AllGatherBytes(absl::string_view message) override {
    if (Dies()) return Death();
    return base_.AllGatherBytes(message);
  }
  absl::StatusOr<std::string> BroadcastBytes(absl::string_view message, int32_t root) override {
    if (Dies()) return Death();
    return base_.BroadcastBytes(message, root);
  }
  void Abandon(const absl::Status& status) override { base_.Abandon(status); }
  CommCounters counters() const override { return base_.counters(); }

 private:
  bool Dies() {
    if (left_ < 0) return true;
    return left_-- == 0;
  }
  absl::Status Death() {
    const absl::Status status = absl::AbortedError("this rank was killed");
    base_.Abandon(status);
    return status;
  }

  Communicator& base_;
  int left_;
};

TEST(RankDeathTest, AtEveryCollectiveOfASave) {
  const FaultCase c{"death", SaveLayout::kSharded, 3, false};
  for (const int32_t victim : {0, 1}) {
    bool survived = false;
    for (int at = 0; !survived; ++at) {
      SCOPED_TRACE(absl::StrCat("rank ", victim, " at ", at));
      FaultRun run(c);
      std::atomic<bool> died = false;
      const std::string path = JoinPath(run.directory(), "step-00000010");
      const std::vector<absl::Status> statuses = RunRanks(3, [&](CommGroups& groups) -> absl::Status {
        DyingCommunicator comm(*groups.checkpoint, groups.rank() == victim ? at : 1000);
        const RankState state(run.new_tensors(), &RowShardBox, groups.rank(), 3);
        SW_ASSIGN_OR_RETURN(const SavePlan plan, PlanSave(ToSave(run.new_tensors()), &RowShardBox, World{3, 1}, {}));
        MemoryBudget budget;
        const absl::Status saved =
            SaveCheckpoint(run.base(), path, plan, LocalTensors(state.state()), {}, budget, comm).status();
        if (comm.dead() && groups.rank() == victim) died = true;
        return saved;
      });
      survived = !died;
      if (survived) {
        for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
        EXPECT_GT(at, 5);
      } else {
        EXPECT_THAT(statuses[victim], StatusIs(absl::StatusCode::kAborted));
        EXPECT_THAT(statuses[2], StatusIs(absl::StatusCode::kUnavailable, HasSubstr("was killed")));
      }
      if (Exists(run.base(), path)) {
        EXPECT_THAT(CheckHolds(run.base(), path, run.new_tensors()), IsOk());
      }
      EXPECT_THAT(CheckHolds(run.base(), run.old_path(), run.old_tensors()), IsOk());
      ASSERT_LT(at, 100);
    }
  }
}

TEST(RankDeathTest, AtEveryCollectiveOfALoad) {
  const FaultCase c{"death", SaveLayout::kSharded, 3, false};
  FaultRun run(c);
  bool survived = false;
  for (int at = 0; !survived; ++at) {
    SCOPED_TRACE(at);
    std::atomic<bool> died = false;
    const std::vector<absl::Status> statuses = RunRanks(3, [&](CommGroups& groups) -> absl::Status {
      DyingCommunicator comm(*groups.checkpoint, groups.rank() == 1 ? at : 1000);
      const RankState state(run.old_tensors(), &RowShardBox, groups.rank(), 3, kPoison);
      SW_ASSIGN_OR_RETURN(std::shared_ptr<const Manifest> manifest, OpenManifest(run.base(), run.old_path()));
      MatchResult matched = MatchTensors(LoadView(manifest), Wanted(run.old_tensors()), {{"tied", "w"}}, {});
      SW_ASSIGN_OR_RETURN(const LoadPlan plan, PlanLoad(manifest, matched.tensors, &RowShardBox, World{3, 1},
                                                        LoadOrder{}, MemoryBudget::kUnlimited));
      MemoryBudget budget;
      LocalTensors sink(state.state());
      const absl::Status loaded = LoadCheckpoint(run.base(), run.old_path(), plan, sink, {}, budget, comm).status();
      if (comm.dead()) died = true;
      return loaded;
    });
    survived = !died;
    for (const absl::Status& status : statuses) EXPECT_EQ(status.ok(), survived) << status;
    if (!survived) {
      EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kUnavailable, HasSubstr("was killed")));
    }
    ASSERT_LT(at, 100);
  }
}

}  // namespace
}  // namespace shardwright::testing
