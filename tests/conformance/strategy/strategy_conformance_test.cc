// What every strategy keeps, at every world size: instantiated over the table, so that a new row inherits all of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/conformance/strategy/strategy_world.h"
#include "shardwright/tests/conformance/strategy/toy_module.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::ResultOf;

constexpr int64_t kSamplesPerStep = 24;  // over all ranks: divisible by each world size, in two pieces, too

class StrategyConformanceTest : public ::testing::TestWithParam<WorldCase> {
 protected:
  int32_t ranks() const { return GetParam().ranks; }

  // This rank's samples of a step, in `pieces` micro-batches.
  std::vector<Batch> BatchesOf(int64_t step, int32_t rank, int64_t pieces = 1) const {
    const int64_t samples = kSamplesPerStep / ranks() / pieces;
    std::vector<Batch> batches;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      batches.push_back(ToyBatch(step * kSamplesPerStep + (piece * ranks() + rank) * samples, samples));
    }
    return batches;
  }

  absl::Status Train(Strategy& strategy, int32_t rank, int64_t from, int64_t to) const {
    for (int64_t step = from; step < to; ++step) SW_RETURN_IF_ERROR(strategy.TrainStep(BatchesOf(step, rank), step));
    return absl::OkStatus();
  }

  std::vector<absl::Status> Run(const RankFunction& fn, uint64_t seed = 1) const {
    WorldCase world = GetParam();
    world.options.seed = seed;
    world.options.gradient_bucket_bytes = 200;  // several buckets
    return RunWorld(*storage_, world, fn);
  }

  // A strategy with a toy module that trained `steps` steps is saved at `path`.
  void TrainAndSave(const std::string& path, const ToyOptions& toy = {}, int64_t steps = 3) const {
    ASSERT_THAT(Run([&](Strategy& strategy, int32_t rank) -> absl::Status {
                  SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule(toy)));
                  SW_RETURN_IF_ERROR(Train(strategy, rank, 0, steps));
                  return strategy.Save({.path = path}).status();
                }),
                Each(IsOk()));
  }

  // Loads into a module that started otherwise; saves what it then has at `resaved`.
  std::vector<absl::Status> LoadAndSave(const LoadRequest& request, const std::string& resaved,
                                        const ToyOptions& toy = {}) const {
    return Run(
        [&](Strategy& strategy, int32_t rank) -> absl::Status {
          SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule(toy)));
          SW_RETURN_IF_ERROR(Train(strategy, rank, 0, 1));
          SW_RETURN_IF_ERROR(strategy.Load(request));
          return strategy.Save({.path = resaved}).status();
        },
        /*seed=*/77);
  }

  std::vector<TensorEntry> Tensors(const std::string& path) const { return TensorsOf(*storage_, path); }
  const TensorEntry& Tensor(const std::vector<TensorEntry>& tensors, const std::string& name) const {
    for (const TensorEntry& entry : tensors) {
      if (entry.meta.name == name) return entry;
    }
    ADD_FAILURE() << "no tensor " << name;
    return tensors.front();
  }

  // Flips a bit in the stored bytes of a tensor.
  void Damage(const std::string& path, const std::string& tensor) const {
    SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage_, path));
    const ShardMeta& shard = manifest->Find(tensor)->shards.at(0);
    const std::string file = JoinPath(path, manifest->files()[shard.file].path);
    SW_ASSERT_OK_AND_ASSIGN(const auto reader, storage_->OpenRead(file));
    char byte = 0;
    ASSERT_THAT(reader->ReadAt(shard.offset_bytes, absl::MakeSpan(&byte, 1)), IsOk());
    byte ^= 1;
    SW_ASSERT_OK_AND_ASSIGN(const auto writer, storage_->OpenWrite(file));
    ASSERT_THAT(writer->WriteAt(shard.offset_bytes, absl::MakeConstSpan(&byte, 1)), IsOk());
    ASSERT_THAT(writer->Close(), IsOk());
  }

  std::unique_ptr<Storage> storage_ = MakeMemoryStorage();
};

TEST_P(StrategyConformanceTest, SavesAndLoadsBitEqual) {
  TrainAndSave("a");
  ASSERT_THAT(LoadAndSave({.path = "a"}, "b"), Each(IsOk()));
  EXPECT_EQ(Tensors("a"), Tensors("b"));
  TrainAndSave("c", {}, /*steps=*/1);
  EXPECT_NE(Tensors("a"), Tensors("c")) << "the comparison can fail";
}

TEST_P(StrategyConformanceTest, SingleFileLayoutRoundTripsToo) {
  WorldCase world = GetParam();
  world.options.save_layout = SaveLayout::kSingleFile;
  ASSERT_THAT(RunWorld(*storage_, world,
                       [&](Strategy& strategy, int32_t rank) -> absl::Status {
                         SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule({})));
                         SW_RETURN_IF_ERROR(Train(strategy, rank, 0, 2));
                         return strategy.Save({.path = "whole"}).status();
                       }),
              Each(IsOk()));
  TrainAndSave("a", {}, 2);
  ASSERT_THAT(LoadAndSave({.path = "whole"}, "b"), Each(IsOk()));
  EXPECT_EQ(Tensors("a"), Tensors("b"));
}

TEST_P(StrategyConformanceTest, HooksRunOncePerRankAndCaptureIsCounted) {
  std::atomic<int> saves = 0, loads = 0;
  ToyOptions toy;
  toy.on_save = [&](Value::Map& extras) {
    ++saves;
    extras["note"] = "kept";
    return absl::OkStatus();
  };
  toy.on_load = [&](LoadView& view) {
    ++loads;
    EXPECT_EQ(view.extras().at("module"), Value(Value::Map{{"note", "kept"}}));
    return absl::OkStatus();
  };
  EXPECT_THAT(Run([&](Strategy& strategy, int32_t rank) -> absl::Status {
                SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule(toy)));
                EXPECT_EQ(strategy.captures(), 0);
                SW_RETURN_IF_ERROR(strategy.Save({.path = "a"}));
                EXPECT_EQ(strategy.captures(), 1);
                return strategy.Load({.path = "a"}).status();
              }),
              Each(IsOk()));
  EXPECT_EQ(saves, ranks());
  EXPECT_EQ(loads, ranks());
}

TEST_P(StrategyConformanceTest, ARenameInTheHookTakesEffect) {
  ToyOptions old;
  old.hidden_name = "old";
  TrainAndSave("a", old);
  ToyOptions renamed;
  renamed.on_load = [](LoadView& view) -> absl::Status {
    for (const char* part : {"weight", "bias"}) {
      SW_RETURN_IF_ERROR(view.Rename(absl::StrCat("old.", part), absl::StrCat("hidden.", part)));
    }
    return absl::OkStatus();
  };
  ASSERT_THAT(LoadAndSave({.path = "a"}, "b", renamed), Each(IsOk()));
  const auto before = Tensors("a"), after = Tensors("b");
  EXPECT_EQ(Tensor(before, "old.weight").shards[0].hash, Tensor(after, "hidden.weight").shards[0].hash);
  EXPECT_EQ(Tensor(before, "optimizer.0.state.old.weight.exp_avg").shards[0].hash,
            Tensor(after, "optimizer.0.state.hidden.weight.exp_avg").shards[0].hash)
      << "optimizer state follows its parameter";
}

TEST_P(StrategyConformanceTest, EveryStrictnessProblemIsListedAndNothingChanges) {
  TrainAndSave("a");
  ToyOptions other;
  other.hidden_rows = 4;
  other.extra_parameter = true;
  EXPECT_THAT(Run([&](Strategy& strategy, int32_t rank) -> absl::Status {
                SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule(other)));
                SW_RETURN_IF_ERROR(strategy.Save({.path = "before"}));
                EXPECT_THAT(strategy.Load({.path = "a"}).status(),
                            StatusIs(absl::StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr("shape of hidden.weight: checkpoint [5, 6], model [4, 6]"),
                                           HasSubstr("shape of optimizer.0.state.back.weight.exp_avg"),
                                           HasSubstr("missing: extra"))));
                SW_RETURN_IF_ERROR(strategy.Save({.path = "after"}));
                return strategy.TrainStep(BatchesOf(0, rank), 0).status();
              }),
              Each(IsOk()));
  EXPECT_EQ(Tensors("before"), Tensors("after"));
}

TEST_P(StrategyConformanceTest, LenientLoadsSkipAndSaySo) {
  TrainAndSave("a");
  ToyOptions other;
  other.extra_parameter = true;
  EXPECT_THAT(Run([&](Strategy& strategy, int32_t rank) -> absl::Status {
                SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule(other)));
                SW_ASSIGN_OR_RETURN(const LoadResult result, strategy.Load({.path = "a", .strict = false}));
                EXPECT_THAT(result.skipped, IsSupersetOf({std::string("missing: extra")}));
                return strategy.Save({.path = "b"}).status();
              }),
              Each(IsOk()));
  EXPECT_EQ(Tensor(Tensors("a"), "back.weight").shards[0].hash, Tensor(Tensors("b"), "back.weight").shards[0].hash);
}

TEST_P(StrategyConformanceTest, ADamagedCheckpointIsFoundBeforeTheModuleChanges) {
  TrainAndSave("a");
  Damage("a", "hidden.weight");
  EXPECT_THAT(Run(
                  [&](Strategy& strategy, int32_t rank) -> absl::Status {
                    SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule({})));
                    SW_RETURN_IF_ERROR(strategy.Save({.path = "before"}));
                    EXPECT_THAT(strategy.Load({.path = "a"}).status(),
                                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("hidden.weight")));
                    SW_RETURN_IF_ERROR(strategy.Save({.path = "after"}));
                    return Train(strategy, rank, 0, 1);
                  },
                  /*seed=*/77),
              Each(IsOk()));
  EXPECT_EQ(Tensors("before"), Tensors("after"));
}

TEST_P(StrategyConformanceTest, AfterALoadThatFailedHalfWayOnlyAnotherLoadHelps) {
  TrainAndSave("good");
  TrainAndSave("bad");
  Damage("bad", "optimizer.0.state.unused.weight.exp_avg");
  EXPECT_THAT(Run(
                  [&](Strategy& strategy, int32_t rank) -> absl::Status {
                    SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule({})));
                    EXPECT_THAT(strategy.Load({.path = "bad", .io = {.verify_first = false}}).status(),
                                StatusIs(absl::StatusCode::kDataLoss));
                    const auto refused =
                        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("half loaded from bad"));
                    EXPECT_THAT(strategy.TrainStep(BatchesOf(0, rank), 0).status(), refused);
                    EXPECT_THAT(strategy.ValidationStep(ToyBatch(0, 1)).status(), refused);
                    EXPECT_THAT(strategy.Save({.path = "torn"}).status(), refused);
                    SW_RETURN_IF_ERROR(strategy.Load({.path = "good"}));
                    return strategy.Save({.path = "again"}).status();
                  },
                  /*seed=*/77),
              Each(IsOk()));
  EXPECT_EQ(Tensors("good"), Tensors("again"));
  EXPECT_FALSE(Exists(*storage_, "torn"));
}

TEST_P(StrategyConformanceTest, TiedWeightsAreStoredOnceAndLoadIntoTiedAndUntied) {
  ToyOptions untied;
  untied.tied = false;
  TrainAndSave("tied");
  const auto tied = Tensors("tied");
  EXPECT_EQ(Tensor(tied, "head").alias_of, "embedding");
  EXPECT_THAT(Tensor(tied, "head").shards, IsEmpty());

  ASSERT_THAT(LoadAndSave({.path = "tied"}, "into_untied", untied), Each(IsOk()));
  const auto loaded = Tensors("into_untied");
  EXPECT_EQ(Tensor(loaded, "head").alias_of, "");
  EXPECT_EQ(Tensor(loaded, "head").shards[0].hash, Tensor(tied, "embedding").shards[0].hash);
  EXPECT_EQ(Tensor(loaded, "embedding").shards[0].hash, Tensor(tied, "embedding").shards[0].hash);

  ASSERT_THAT(LoadAndSave({.path = "into_untied"}, "back"), Each(IsOk()));
  EXPECT_EQ(Tensors("back"), tied);
}

TEST_P(StrategyConformanceTest, FrozenParametersStayAndAreSaved) {
  TrainAndSave("start", {}, 0);
  TrainAndSave("trained", {}, 4);
  const auto start = Tensors("start"), trained = Tensors("trained");
  EXPECT_EQ(Tensor(start, "frozen").shards[0].hash, Tensor(trained, "frozen").shards[0].hash);
  EXPECT_NE(Tensor(start, "hidden.weight").shards[0].hash, Tensor(trained, "hidden.weight").shards[0].hash);
  EXPECT_FALSE(Tensor(trained, "frozen").meta.trainable);
  for (const TensorEntry& entry : trained) EXPECT_NE(entry.meta.optimizer.parameter, "frozen");
}

TEST_P(StrategyConformanceTest, WeightsOnlyStartsTheOptimizerAnew) {
  TrainAndSave("a");
  TrainAndSave("fresh", {}, 0);
  ASSERT_THAT(LoadAndSave({.path = "a", .weights_only = true}, "b"), Each(IsOk()));
  const auto saved = Tensors("a"), fresh = Tensors("fresh");
  for (const TensorEntry& entry : Tensors("b")) {
    if (!entry.alias_of.empty()) continue;
    const auto& want = entry.meta.role == Role::kOptimizer ? fresh : saved;
    EXPECT_EQ(entry.shards, Tensor(want, entry.meta.name).shards) << entry.meta.name;
  }
}

TEST_P(StrategyConformanceTest, SgdWithoutStateRoundTrips) {
  ToyOptions sgd;
  sgd.optimizer = OptimizerKind::kSgd;
  TrainAndSave("a", sgd);
  for (const TensorEntry& entry : Tensors("a")) EXPECT_NE(entry.meta.role, Role::kOptimizer);
  ASSERT_THAT(LoadAndSave({.path = "a"}, "b", sgd), Each(IsOk()));
  EXPECT_EQ(Tensors("a"), Tensors("b"));
  EXPECT_THAT(LoadAndSave({.path = "a"}, "c"),
              Each(StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("sgd"), HasSubstr("adamw")))));
}

TEST_P(StrategyConformanceTest, AccumulationEqualsOneBigBatch) {
  const auto losses = [&](int64_t pieces) {
    std::vector<double> by_step(8);
    EXPECT_THAT(Run([&](Strategy& strategy, int32_t rank) -> absl::Status {
                  SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule({})));
                  for (int64_t step = 0; step < 8; ++step) {
                    SW_ASSIGN_OR_RETURN(const StepResult result,
                                        strategy.TrainStep(BatchesOf(step, rank, pieces), step));
                    if (rank == 0 && ranks() == 1) by_step[step] = result.loss;
                  }
                  // Losses of ranks differ by their samples; what was learned does not.
                  SW_ASSIGN_OR_RETURN(const auto metrics, strategy.ValidationStep(ToyBatch(0, 12)));
                  if (rank == 0) by_step[0] = metrics.at("val_loss");
                  return absl::OkStatus();
                }),
                Each(IsOk()));
    return by_step;
  };
  const std::vector<double> big = losses(1), pieces = losses(2);
  for (size_t step = 0; step < big.size(); ++step) EXPECT_NEAR(big[step], pieces[step], 1e-5) << step;
}

TEST_P(StrategyConformanceTest, ReplicasStayEqualBuffersIncluded) {
  std::vector<double> losses(ranks());
  ASSERT_THAT(Run([&](Strategy& strategy, int32_t rank) -> absl::Status {
                SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule({})));
                SW_RETURN_IF_ERROR(Train(strategy, rank, 0, 5));
                SW_ASSIGN_OR_RETURN(const auto metrics, strategy.ValidationStep(ToyBatch(3, 7)));
                losses[rank] = metrics.at("val_loss");
                return absl::OkStatus();
              }),
              Each(IsOk()));
  EXPECT_THAT(losses, Each(losses[0]));
}

TEST_P(StrategyConformanceTest, ClippingReportsTheNormAndBoundsTheUpdate) {
  WorldCase world = GetParam();
  ToyOptions sgd;
  sgd.optimizer = OptimizerKind::kSgd;
  std::vector<double> norms;
  for (const double limit : {1e9, 1e-3}) {
    world.options.clip_gradient_norm = limit;
    EXPECT_THAT(RunWorld(*storage_, world,
                         [&](Strategy& strategy, int32_t rank) -> absl::Status {
                           SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule(sgd)));
                           SW_ASSIGN_OR_RETURN(const StepResult result, strategy.TrainStep(BatchesOf(0, rank), 0));
                           EXPECT_GT(result.gradient_norm, 0.01);
                           if (rank == 0) norms.push_back(result.gradient_norm);
                           return strategy.Save({.path = absl::StrCat("limit", limit)}).status();
                         }),
                Each(IsOk()));
  }
  EXPECT_EQ(norms[0], norms[1]) << "the norm is that before clipping";
  EXPECT_NE(Tensors(absl::StrCat("limit", 1e9)), Tensors(absl::StrCat("limit", 1e-3)));
}

TEST_P(StrategyConformanceTest, ALossThatIsNoNumberStopsBeforeAnUpdate) {
  ToyOptions toy;
  toy.poison = std::make_shared<bool>(true);
  EXPECT_THAT(Run([&](Strategy& strategy, int32_t rank) -> absl::Status {
                SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule(toy)));
                SW_RETURN_IF_ERROR(strategy.Save({.path = "before"}));
                EXPECT_THAT(
                    strategy.TrainStep(BatchesOf(6, rank), 6).status(),
                    StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("step 7"), HasSubstr("the loss is nan"))));
                return strategy.Save({.path = "after"}).status();
              }),
              Each(IsOk()));
  for (const TensorEntry& entry : Tensors("after")) {
    if (entry.meta.role == Role::kBuffer) continue;  // forward ran
    EXPECT_EQ(entry, Tensor(Tensors("before"), entry.meta.name));
  }
}

TEST_P(StrategyConformanceTest, CallsOutOfOrderAreRefused) {
  EXPECT_THAT(Run([&](Strategy& strategy, int32_t rank) -> absl::Status {
                const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition);
                EXPECT_THAT(strategy.TrainStep(BatchesOf(0, rank), 0).status(), refused);
                EXPECT_THAT(strategy.Save({.path = "a"}).status(), refused);
                EXPECT_THAT(strategy.Load({.path = "a"}).status(), refused);
                SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule({})));
                EXPECT_THAT(strategy.Setup(MakeToyModule({})), refused);
                EXPECT_THAT(strategy.TrainStep({}, 0).status(), StatusIs(absl::StatusCode::kInvalidArgument));
                EXPECT_EQ(strategy.name(), GetParam().strategy);
                return absl::OkStatus();
              }),
              Each(IsOk()));
}

TEST_P(StrategyConformanceTest, ADeviceThatIsNotThereIsRefused) {
  WorldCase world = GetParam();
  world.device = Device::Cuda(100);
  EXPECT_THAT(RunWorld(*storage_, world,
                       [&](Strategy& strategy, int32_t rank) {
                         absl::Status set_up = strategy.Setup(MakeToyModule({}));
                         EXPECT_THAT(strategy.TrainStep(BatchesOf(0, rank), 0), Not(IsOk()));
                         return set_up;
                       }),
              Each(AllOf(Not(IsOk()), ResultOf([](const absl::Status& status) { return status.message(); },
                                               HasSubstr("building toy")))));
}

TEST_P(StrategyConformanceTest, RanksThatBuildDifferentModelsAreRefused) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  EXPECT_THAT(Run([&](Strategy& strategy, int32_t rank) {
                ToyOptions toy;
                toy.extra_parameter = rank == 1;
                return strategy.Setup(MakeToyModule(toy));
              }),
              Each(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ranks 0 and 1 built different models"))));
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, StrategyConformanceTest, ::testing::ValuesIn(AllWorlds()),
                         [](const auto& info) { return CaseName(info.param); });

}  // namespace
}  // namespace shardwright::testing
