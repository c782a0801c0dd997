// The loop: actions, agreement, failures.
#include "shardwright/core/trainer/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "shardwright/callbacks/model_checkpoint.h"
#include "shardwright/core/checkpoint/run_directory.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/core/trainer/trainer_harness.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TrainerTest : public ::testing::Test {
 protected:
  const std::unique_ptr<Storage> storage_ = MakeMemoryStorage();
};

TEST_F(TrainerTest, SeveralWishesOfAStepAreOneCapture) {
  RunSpec spec;
  spec.world = 2;
  spec.script.at_step[4] = Action{.save = true, .links = {"best"}};
  spec.script.standing_links = {"newest"};
  spec.more_callbacks = [] {
    CallbackOptions options;
    options.save_every_steps = 4;
    std::vector<std::unique_ptr<Callback>> callbacks;
    callbacks.push_back(MakeModelCheckpoint(options));
    return callbacks;
  };
  const RunOutcome outcome = Train(*storage_, spec);
  ASSERT_TRUE(outcome.ok()) << outcome.result().status();
  EXPECT_EQ(outcome.captures, 3);  // steps 4, 8 and the end
  EXPECT_THAT(CheckpointsOf(*storage_), ElementsAre("step-00000009", "step-00000008", "step-00000004"));
  EXPECT_THAT(storage_->ReadLink("runs/demo/best"), IsOkAndHolds("step-00000004"));
  EXPECT_THAT(storage_->ReadLink("runs/demo/last"), IsOkAndHolds("step-00000009"));
  EXPECT_THAT(storage_->ReadLink("runs/demo/newest"), IsOkAndHolds("step-00000009"));
}

TEST_F(TrainerTest, SavedCheckpointsAreToldWithStepAndSize) {
  RunSpec spec;
  spec.script.at_step[2] = Action{.save = true};
  const RunOutcome outcome = Train(*storage_, spec);
  ASSERT_THAT(outcome.saved, SizeIs(1));
  EXPECT_EQ(outcome.saved[0].path, "runs/demo/step-00000002");
  EXPECT_EQ(outcome.saved[0].step, 2);
  EXPECT_GT(outcome.saved[0].total_bytes, 0u);
  EXPECT_EQ(outcome.result()->last_checkpoint, "runs/demo/step-00000002");
}

TEST_F(TrainerTest, ALinkAloneIsAWishToSave) {
  RunSpec spec;
  spec.script.at_step[3] = Action{.links = {"best"}};
  ASSERT_TRUE(Train(*storage_, spec).ok());
  EXPECT_THAT(storage_->ReadLink("runs/demo/best"), IsOkAndHolds("step-00000003"));
}

TEST_F(TrainerTest, ASignalSavesWithTheStandingLinksAndOnlyOnce) {
  RunSpec spec;
  spec.script.at_step[3] = Action{.save = true};
  spec.script.standing_links = {"last"};
  spec.script.at_end = Action{.save = true, .links = {"end"}};
  spec.strategy.before_step = [](int64_t step, int32_t) {
    if (step == 2) std::raise(SIGINT);
    return absl::OkStatus();
  };
  const RunOutcome outcome = Train(*storage_, spec);
  ASSERT_TRUE(outcome.ok()) << outcome.result().status();
  EXPECT_EQ(outcome.result()->stop_signal, SIGINT);
  EXPECT_EQ(outcome.captures, 1);
  EXPECT_THAT(CheckpointsOf(*storage_), ElementsAre("step-00000003"));
  EXPECT_THAT(storage_->ReadLink("runs/demo/last"), IsOkAndHolds("step-00000003"));
  EXPECT_FALSE(Exists(*storage_, "runs/demo/end")) << "a run that is cut short has no end";
}

TEST_F(TrainerTest, ACallbackThatStopsTheRunSaysWhy) {
  RunSpec spec;
  spec.script.at_step[2] = Action{.stop = true, .stop_reason = "good enough"};
  const RunOutcome outcome = Train(*storage_, spec);
  ASSERT_TRUE(outcome.ok()) << outcome.result().status();
  EXPECT_EQ(outcome.result()->stop_reason, "good enough");
  EXPECT_EQ(outcome.result()->progress.step, 2);
  EXPECT_THAT(outcome.notes, ::testing::Contains("stopping at step 2: good enough"));
}

TEST_F(TrainerTest, EachStepCostsOneReductionUnlessADecisionIsDue) {
  RunSpec spec;
  spec.world = 2;
  spec.script.may_act = false;
  spec.options.max_steps = 0;
  const CommCounters start = Train(*storage_, spec).control;
  spec.options.max_steps = 9;
  const RunOutcome outcome = Train(*storage_, spec);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.control.all_reduces - start.all_reduces, 9);
  EXPECT_EQ(outcome.control.messages, start.messages);
  EXPECT_EQ(outcome.control.broadcasts, start.broadcasts);
}

TEST_F(TrainerTest, AWishAgainstThePromiseIsAnError) {
  RunSpec spec;
  spec.script.may_act = false;
  spec.script.at_step[2] = Action{.save = true};
  EXPECT_THAT(Train(*storage_, spec).result(),
              StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("scripted"), HasSubstr("step 2"))));
}

TEST_F(TrainerTest, ARankThatFailsEndsTheOthersAndIsNamed) {
  RunSpec spec;
  spec.world = 3;
  spec.strategy.before_step = [](int64_t step, int32_t rank) {
    return step == 4 && rank == 1 ? absl::InternalError("out of luck") : absl::OkStatus();
  };
  const RunOutcome outcome = Train(*storage_, spec);
  EXPECT_THAT(outcome.results[1], StatusIs(absl::StatusCode::kInternal, HasSubstr("out of luck")));
  for (int32_t rank : {0, 2}) {
    EXPECT_THAT(outcome.results[rank],
                StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr("rank 1"), HasSubstr("out of luck"))));
  }
  EXPECT_THAT(CheckpointsOf(*storage_), IsEmpty());
}

TEST_F(TrainerTest, AFullDiskEndsTheRunAndLeavesTheEarlierCheckpoint) {
  RunSpec spec;
  spec.world = 2;
  spec.script.at_step[2] = Action{.save = true};
  ASSERT_TRUE(Train(*storage_, spec).ok());
  const uint64_t one_checkpoint = storage_->counters().bytes_written;

  const std::unique_ptr<Storage> small = MakeMemoryStorage(one_checkpoint * 3 / 2);
  spec.script.at_step[4] = Action{.save = true, .links = {"best"}};
  spec.script.standing_links = {"last"};
  const RunOutcome outcome = Train(*small, spec);
  for (const auto& result : outcome.results) {
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("saving runs/demo/step-00000004")));
  }
  EXPECT_THAT(small->ReadLink("runs/demo/last"), IsOkAndHolds("step-00000002"));
  EXPECT_FALSE(Exists(*small, "runs/demo/best"));

  RunSpec again;
  again.world = 2;
  const RunOutcome resumed = Train(*small, again);
  ASSERT_TRUE(resumed.ok()) << resumed.result().status();
  EXPECT_EQ(resumed.result()->resumed_from, "runs/demo/step-00000002");
}

TEST_F(TrainerTest, TwoRunsOnOneDirectoryAreRefused) {
  SW_ASSERT_OK_AND_ASSIGN(const auto made, [&]() -> absl::StatusOr<bool> {
    SW_RETURN_IF_ERROR(storage_->CreateDirectories(kRunDirectory));
    return true;
  }());
  ASSERT_TRUE(made);
  SW_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileLock> lock, LockRunDirectory(*storage_, kRunDirectory));
  RunSpec spec;
  spec.world = 2;
  const RunOutcome outcome = Train(*storage_, spec);
  for (const auto& result : outcome.results) {
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("opening run directory runs/demo")));
  }
}

TEST_F(TrainerTest, ABatchThatCannotBeDividedNamesAllThreeNumbers) {
  RunSpec spec;
  spec.world = 2;
  spec.options.batch_size = 10;
  spec.options.accumulate_steps = 3;
  EXPECT_THAT(Train(*storage_, spec).result(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("batch_size 10"), HasSubstr("world size 2"), HasSubstr("accumulate_steps 3"))));
}

TEST_F(TrainerTest, AccumulationAndWorldSizeSeeTheSameSamples) {
  RunSpec plain;
  plain.options.batch_size = 12;
  const RunOutcome one = Train(*storage_, plain);
  RunSpec spread = plain;
  spread.world = 3;
  spread.options.accumulate_steps = 2;
  const std::unique_ptr<Storage> other = MakeMemoryStorage();
  const RunOutcome three = Train(*other, spread);
  EXPECT_EQ(one.sample_ids, three.sample_ids);
  EXPECT_EQ(one.state, three.state);
}

}  // namespace
}  // namespace shardwright::testing
