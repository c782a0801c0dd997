// A run that is stopped and resumed is the run that never was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <tuple>

#include "shardwright/core/checkpoint/run_directory.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/core/trainer/trainer_harness.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kSteps = 9;

void ExpectSameRun(const RunOutcome& got, const RunOutcome& want) {
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.state, want.state);
  EXPECT_EQ(got.sample_ids, want.sample_ids);
}

// World size, accumulation, placement.
class StopAndResumeTest : public ::testing::TestWithParam<std::tuple<int32_t, int64_t, PlacementRule>> {
 protected:
  RunSpec Spec() const {
    RunSpec spec;
    spec.world = std::get<0>(GetParam());
    spec.options.batch_size = 12;
    spec.options.accumulate_steps = std::get<1>(GetParam());
    spec.strategy.rule = std::get<2>(GetParam());
    spec.strategy.noise = true;
    return spec;
  }
};

TEST_P(StopAndResumeTest, StoppedByACallbackAtEveryStep) {
  const std::unique_ptr<Storage> fresh = MakeMemoryStorage();
  const RunOutcome whole = Train(*fresh, Spec());
  ASSERT_TRUE(whole.ok()) << whole.result().status();
  ASSERT_EQ(whole.losses.size(), static_cast<size_t>(kSteps));
  for (int64_t stop = 1; stop < kSteps; ++stop) {
    SCOPED_TRACE(stop);
    const std::unique_ptr<Storage> storage = MakeMemoryStorage();
    RunSpec first = Spec();
    first.script.at_step[stop] = Action{.save = true, .stop = true, .stop_reason = "asked to"};
    const RunOutcome before = Train(*storage, first);
    ASSERT_TRUE(before.ok()) << before.result().status();
    EXPECT_EQ(before.result()->stop_reason, "asked to");
    EXPECT_EQ(before.result()->progress.step, stop);
    const RunOutcome after = Train(*storage, Spec());
    ASSERT_TRUE(after.ok()) << after.result().status();
    EXPECT_EQ(after.result()->resumed_from, before.result()->last_checkpoint);
    ExpectSameRun(Joined(before, after), whole);
  }
}

TEST_P(StopAndResumeTest, StoppedBySigtermInEveryStep) {
  const std::unique_ptr<Storage> fresh = MakeMemoryStorage();
  const RunOutcome whole = Train(*fresh, Spec());
  ASSERT_TRUE(whole.ok());
  for (int64_t stop = 1; stop <= kSteps; ++stop) {
    SCOPED_TRACE(stop);
    const std::unique_ptr<Storage> storage = MakeMemoryStorage();
    RunSpec first = Spec();
    const int32_t last_rank = first.world - 1;
    first.strategy.before_step = [=](int64_t step, int32_t rank) {
      if (step + 1 == stop && rank == last_rank) std::raise(SIGTERM);
      return absl::OkStatus();
    };
    const RunOutcome before = Train(*storage, first);
    ASSERT_TRUE(before.ok()) << before.result().status();
    for (const auto& result : before.results) EXPECT_EQ(result->stop_signal, SIGTERM);
    EXPECT_EQ(before.result()->progress.step, stop);
    EXPECT_EQ(before.captures, 1);
    EXPECT_THAT(before.AllNotes(), HasSubstr("SIGTERM caught: saving step"));
    const RunOutcome after = Train(*storage, Spec());
    ASSERT_TRUE(after.ok()) << after.result().status();
    ExpectSameRun(Joined(before, after), whole);
  }
}

TEST_P(StopAndResumeTest, ResumedTwice) {
  const std::unique_ptr<Storage> fresh = MakeMemoryStorage();
  const RunOutcome whole = Train(*fresh, Spec());
  const std::unique_ptr<Storage> storage = MakeMemoryStorage();
  RunSpec part = Spec();
  part.script.at_step[2] = part.script.at_step[5] = Action{.save = true, .stop = true};
  const RunOutcome first = Train(*storage, part);
  const RunOutcome second = Train(*storage, part);
  const RunOutcome third = Train(*storage, part);
  ASSERT_TRUE(third.ok()) << third.result().status();
  EXPECT_EQ(second.result()->progress.step, 5);
  ExpectSameRun(Joined(Joined(first, second), third), whole);
}

INSTANTIATE_TEST_SUITE_P(Worlds, StopAndResumeTest,
                         ::testing::Values(std::make_tuple(1, 1, &ReplicatedBox), std::make_tuple(1, 3, &ReplicatedBox),
                                           std::make_tuple(2, 2, &ReplicatedBox), std::make_tuple(3, 1, &ReplicatedBox),
                                           std::make_tuple(3, 2, &RowShardBox)));

struct WorldChange {
  std::vector<int32_t> worlds;
  std::vector<int64_t> accumulations;
};

class WorldChangeTest : public ::testing::TestWithParam<WorldChange> {};

// Exactly the samples not yet seen, in order; and since the arithmetic is exact, the same parameters.
TEST_P(WorldChangeTest, GoesOnWithTheSamplesNotYetSeen) {
  const auto spec_of_part = [&](size_t part) {
    RunSpec spec;
    spec.world = GetParam().worlds[part];
    spec.options.batch_size = 12;
    spec.options.accumulate_steps = GetParam().accumulations[part];
    spec.strategy.rule = part % 2 == 0 ? &ReplicatedBox : &RowShardBox;
    return spec;
  };
  const std::unique_ptr<Storage> fresh = MakeMemoryStorage();
  const RunOutcome whole = Train(*fresh, spec_of_part(0));
  const std::unique_ptr<Storage> storage = MakeMemoryStorage();
  RunOutcome joined;
  for (size_t part = 0; part < GetParam().worlds.size(); ++part) {
    RunSpec spec = spec_of_part(part);
    spec.script.at_step[2] = spec.script.at_step[5] = Action{.save = true, .stop = true};
    const RunOutcome outcome = Train(*storage, spec);
    ASSERT_TRUE(outcome.ok()) << outcome.result().status();
    if (part > 0) {
      EXPECT_THAT(outcome.AllNotes(), HasSubstr("world size was"));
    }
    joined = Joined(joined, outcome);
  }
  EXPECT_EQ(joined.result()->progress, whole.result()->progress);
  EXPECT_EQ(joined.sample_ids, whole.sample_ids);
  EXPECT_EQ(joined.state, whole.state);
}

INSTANTIATE_TEST_SUITE_P(Worlds, WorldChangeTest,
                         ::testing::Values(WorldChange{{1, 3, 2}, {1, 1, 1}}, WorldChange{{3, 2, 1}, {2, 1, 4}},
                                           WorldChange{{2, 4, 3}, {3, 1, 2}}));

class TrainerResumeTest : public ::testing::Test {
 protected:
  // A run of `steps` steps, each of them saved.
  RunOutcome SaveSteps(int64_t steps, int32_t world = 1) {
    RunSpec spec;
    spec.world = world;
    spec.options.max_steps = steps;
    for (int64_t step = 1; step <= steps; ++step) spec.script.at_step[step] = Action{.save = true};
    return Train(*storage_, spec);
  }

  const std::unique_ptr<Storage> storage_ = MakeMemoryStorage();
};

TEST_F(TrainerResumeTest, AFreshRunSaysSo) {
  const RunOutcome outcome = Train(*storage_, RunSpec());
  ASSERT_TRUE(outcome.ok()) << outcome.result().status();
  EXPECT_THAT(outcome.notes, ElementsAre("starting fresh"));
  EXPECT_EQ(outcome.result()->resumed_from, "");
  EXPECT_EQ(outcome.result()->last_checkpoint, "");
  EXPECT_EQ(outcome.result()->last_loss, outcome.losses.at(kSteps));
}

TEST_F(TrainerResumeTest, EpochsFollowFromSamples) {
  const RunOutcome outcome = Train(*storage_, RunSpec());
  EXPECT_EQ(outcome.result()->progress, (TrainingProgress{.step = 9, .epoch = 1, .samples_seen = 54}));
}

TEST_F(TrainerResumeTest, ABitFlippedInTheNewestFallsBackAndNamesIt) {
  for (int32_t world : {1, 2}) {
    SCOPED_TRACE(world);
    const std::unique_ptr<Storage> fresh = MakeMemoryStorage();
    RunSpec spec;
    spec.world = world;
    const RunOutcome whole = Train(*fresh, spec);
    ASSERT_TRUE(SaveSteps(4, world).ok());
    FlipBit(*storage_, FileOf(*storage_, "runs/demo/step-00000004", "model"));
    FlipBit(*storage_, FileOf(*storage_, "runs/demo/step-00000003", "optimizer"));
    const RunOutcome outcome = Train(*storage_, spec);
    ASSERT_TRUE(outcome.ok()) << outcome.result().status();
    EXPECT_EQ(outcome.result()->resumed_from, "runs/demo/step-00000002");
    EXPECT_THAT(outcome.AllNotes(),
                AllOf(HasSubstr("passing over step-00000004: "), HasSubstr("passing over step-00000003: "),
                      HasSubstr("resuming from step-00000002")));
    EXPECT_EQ(outcome.notes.size(), 3u) << outcome.AllNotes();
    EXPECT_EQ(outcome.state, whole.state);
    ASSERT_TRUE(RemoveTree(*storage_, kRunDirectory).ok());
  }
}

TEST_F(TrainerResumeTest, RandomGeneratorsOfAnotherDeviceStartAnewAndThatIsSaid) {
  RunSpec spec;
  spec.strategy.noise = true;
  const std::unique_ptr<Storage> fresh = MakeMemoryStorage();
  const RunOutcome whole = Train(*fresh, spec);
  spec.script.at_step[4] = Action{.save = true, .stop = true};
  ASSERT_TRUE(Train(*storage_, spec).ok());
  spec.script.at_step.clear();
  spec.strategy.generator = "fake_gpu";
  const RunOutcome moved = Train(*storage_, spec);
  ASSERT_TRUE(moved.ok()) << moved.result().status();
  EXPECT_THAT(moved.notes, Contains("random generators were fake_cpu, are fake_gpu on this device: they start anew"));
  EXPECT_EQ(moved.losses.size(), 5u);
  EXPECT_NE(moved.state, whole.state) << "the generator of another device cannot draw the same numbers";
  EXPECT_EQ(moved.sample_ids.size(), 30u);
}

TEST_F(TrainerResumeTest, ADamagedManifestFallsBackAndIsNamed) {
  ASSERT_TRUE(SaveSteps(3).ok());
  FlipBit(*storage_, "runs/demo/step-00000003/manifest.pb");
  const RunOutcome outcome = Train(*storage_, RunSpec());
  ASSERT_TRUE(outcome.ok()) << outcome.result().status();
  EXPECT_EQ(outcome.result()->resumed_from, "runs/demo/step-00000002");
  EXPECT_THAT(outcome.AllNotes(), HasSubstr("passing over step-00000003"));
}

TEST_F(TrainerResumeTest, AllDamagedIsAnErrorAndNotAFreshStart) {
  ASSERT_TRUE(SaveSteps(2, 2).ok());
  FlipBit(*storage_, FileOf(*storage_, "runs/demo/step-00000001", "model"));
  FlipBit(*storage_, FileOf(*storage_, "runs/demo/step-00000002", "model"));
  RunSpec spec;
  spec.world = 2;
  const RunOutcome outcome = Train(*storage_, spec);
  for (const auto& result : outcome.results) {
    EXPECT_THAT(result,
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("step-00000001"), HasSubstr("step-00000002"), HasSubstr("--resume=none"))));
  }
  FlipBit(*storage_, "runs/demo/step-00000001/manifest.pb");
  FlipBit(*storage_, "runs/demo/step-00000002/manifest.pb");
  EXPECT_THAT(Train(*storage_, spec).result(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(TrainerResumeTest, ADamagedStepThatWasAskedForIsAnError) {
  ASSERT_TRUE(SaveSteps(2).ok());
  FlipBit(*storage_, FileOf(*storage_, "runs/demo/step-00000002", "model"));
  RunSpec spec;
  spec.options.resume = "2";
  EXPECT_THAT(Train(*storage_, spec).result(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("resuming from runs/demo/step-00000002")));
}

TEST_F(TrainerResumeTest, ChangedFixedConfigNamesKeyAndBothValues) {
  RunSpec spec;
  spec.options.fixed_config = {{"model", "gpt"}, {"model_options", Value::Map{{"n_layer", "4"}, {"n_head", "2"}}}};
  spec.options.max_steps = 1;
  spec.script.at_end = Action{.save = true};
  ASSERT_TRUE(Train(*storage_, spec).ok());
  spec.options.max_steps = 2;
  spec.options.fixed_config["model_options"] = Value::Map{{"n_layer", "6"}, {"n_head", "2"}};
  // The strategy would find other shapes; the option is what is named.
  spec.strategy.rows = 5;
  EXPECT_THAT(Train(*storage_, spec).result(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("model_options.n_layer: saved 4, given 6"), HasSubstr("--resume=none"),
                             Not(HasSubstr("n_head")), HasSubstr("runs/demo/step-00000001"))));
}

TEST_F(TrainerResumeTest, ChangedSeedAndDataAreNamedTogether) {
  ASSERT_TRUE(SaveSteps(1).ok());
  RunSpec spec;
  spec.options.seed = 77;
  spec.text = std::string(4 * kSamples + 1, '3');
  EXPECT_THAT(Train(*storage_, spec).result(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("seed: saved 1, given 77"), HasSubstr("data: saved crc32c:"))));
}

TEST_F(TrainerResumeTest, OtherThreadsAndBatchSizesAreNoted) {
  ASSERT_TRUE(SaveSteps(1).ok());
  RunSpec spec;
  spec.strategy.threads = 2;
  spec.options.batch_size = 4;
  const RunOutcome outcome = Train(*storage_, spec);
  ASSERT_TRUE(outcome.ok()) << outcome.result().status();
  EXPECT_THAT(outcome.AllNotes(),
              AllOf(HasSubstr("threads of a rank were 1, are 2"), HasSubstr("batch_size was 6, is 4")));
  EXPECT_EQ(outcome.result()->progress.samples_seen, 6 + 8 * 4);
}

TEST_F(TrainerResumeTest, NoneStartsFreshBesideWhatIsThere) {
  ASSERT_TRUE(SaveSteps(2).ok());
  RunSpec spec;
  spec.options.resume = "none";
  spec.options.max_steps = 3;
  spec.script.at_step[2] = spec.script.at_step[3] = Action{.save = true};
  const RunOutcome outcome = Train(*storage_, spec);
  ASSERT_TRUE(outcome.ok()) << outcome.result().status();
  EXPECT_EQ(outcome.losses.size(), 3u);
  EXPECT_THAT(CheckpointsOf(*storage_),
              ElementsAre("step-00000003", "step-00000002-v1", "step-00000002", "step-00000001"));
}

TEST_F(TrainerResumeTest, AStepANameAPathAndALinkCanBeAskedFor) {
  ASSERT_TRUE(SaveSteps(3).ok());
  ASSERT_TRUE(PointLink(*storage_, kRunDirectory, "best", "runs/demo/step-00000002").ok());
  for (const char* resume :
       {"2", "step-00000002", "runs/demo/step-00000002", "file:runs/demo/step-00000002/", "best"}) {
    SCOPED_TRACE(resume);
    RunSpec spec;
    spec.options.resume = resume;
    const RunOutcome outcome = Train(*storage_, spec);
    ASSERT_TRUE(outcome.ok()) << outcome.result().status();
    EXPECT_EQ(outcome.result()->resumed_from, "runs/demo/step-00000002");
  }
}

TEST_F(TrainerResumeTest, AbsentOnesAreNotFoundAndToldWhatThereIs) {
  ASSERT_TRUE(SaveSteps(2).ok());
  for (const char* resume : {"7", "atuo", "file:step-00000001", "elsewhere/step-00000001"}) {
    SCOPED_TRACE(resume);
    RunSpec spec;
    spec.options.resume = resume;
    EXPECT_THAT(
        Train(*storage_, spec).result(),
        StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("resuming"), HasSubstr("step-00000002, step-00000001"))));
  }
}

TEST_F(TrainerResumeTest, AnotherRunsCheckpointIsContinuedInItsOwnDirectory) {
  ASSERT_TRUE(SaveSteps(2).ok());
  RunSpec spec;
  spec.options.run_directory = "runs/other";
  spec.options.resume = "runs/demo/step-00000002";
  spec.options.max_steps = 2;
  spec.script.at_end = Action{.save = true};
  const RunOutcome outcome = Train(*storage_, spec);
  ASSERT_TRUE(outcome.ok()) << outcome.result().status();
  // Its step is saved here although it is saved there.
  EXPECT_EQ(outcome.result()->last_checkpoint, "runs/other/step-00000002");
}

TEST_F(TrainerResumeTest, InitFromTakesWeightsAlone) {
  RunSpec spec;
  spec.options.max_steps = 2;
  spec.script.at_end = Action{.save = true};
  const RunOutcome first = Train(*storage_, spec);
  ASSERT_TRUE(first.ok()) << first.result().status();
  RunSpec tuned;
  tuned.options.run_directory = "runs/tuned";
  tuned.options.init_from = "runs/demo/step-00000002";
  tuned.options.seed = 5;  // a new run: nothing has to agree
  tuned.options.max_steps = 0;
  const RunOutcome start = Train(*storage_, tuned);
  ASSERT_TRUE(start.ok()) << start.result().status();
  EXPECT_EQ(start.state.at("weight"), first.state.at("weight"));
  EXPECT_THAT(start.state.at("optimizer.0.state.weight.momentum_buffer"), ::testing::Each(0));
  EXPECT_EQ(start.result()->progress, TrainingProgress{});
  EXPECT_EQ(start.result()->resumed_from, "");
  EXPECT_THAT(start.AllNotes(), HasSubstr("starting from the weights of runs/demo/step-00000002"));

  // The same command line starts the run and then continues it.
  tuned.options.max_steps = 3;
  tuned.script.at_step[1] = Action{.save = true, .stop = true};
  ASSERT_TRUE(Train(*storage_, tuned).ok());
  const RunOutcome continued = Train(*storage_, tuned);
  ASSERT_TRUE(continued.ok()) << continued.result().status();
  EXPECT_EQ(continued.result()->resumed_from, "runs/tuned/step-00000001");
}

TEST_F(TrainerResumeTest, AFinishedRunTrainsNothingAndSavesNothingAgain) {
  ASSERT_TRUE(SaveSteps(3).ok());
  RunSpec spec;
  spec.options.max_steps = 3;
  spec.script.at_end = Action{.save = true, .links = {"final"}};
  const RunOutcome outcome = Train(*storage_, spec);
  ASSERT_TRUE(outcome.ok()) << outcome.result().status();
  EXPECT_THAT(outcome.losses, IsEmpty());
  EXPECT_EQ(outcome.captures, 0);
  EXPECT_THAT(outcome.AllNotes(), HasSubstr("nothing left to train: step 3 of 3"));
  EXPECT_EQ(outcome.result()->last_checkpoint, "runs/demo/step-00000003");
  EXPECT_THAT(storage_->ReadLink("runs/demo/final"), IsOkAndHolds("step-00000003"));
}

TEST_F(TrainerResumeTest, WhatADeadSaveLeftIsRemoved) {
  ASSERT_TRUE(SaveSteps(1).ok());
  ASSERT_TRUE(storage_->CreateDirectory("runs/demo/.tmp-step-00000002-ab12").ok());
  ASSERT_TRUE(Train(*storage_, RunSpec()).ok());
  EXPECT_FALSE(Exists(*storage_, "runs/demo/.tmp-step-00000002-ab12"));
}

}  // namespace
}  // namespace shardwright::testing
