// Whole runs of the built-in models: strategies follow single_device, and stopping leaves no trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/models/models.h"
#include "shardwright/core/module/tensor_memory.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/conformance/strategy/strategy_world.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::Each;

constexpr int64_t kSamplesPerStep = 12;  // divisible by each world size
constexpr int64_t kContext = 16;

absl::StatusOr<std::unique_ptr<Module>> MakeTiny(const std::string& model, const std::string& dropout = "0") {
  SW_ASSIGN_OR_RETURN(const ModelFactory factory, BuiltinModels().Find(model));
  // Where two experts nearly tie, rounding decides which one a token goes to, and runs part; a lower rate keeps the
  // rounding of runs that are to be compared from growing so far.
  const std::string learning_rate = model == "moe_gpt" ? "0.001" : "0.003";
  return factory.make({{"n_layer", "2"},
                       {"n_head", "2"},
                       {"n_embd", "32"},
                       {"context", absl::StrCat(kContext)},
                       {"dropout", dropout},
                       {"warmup_steps", "5"},
                       {"total_steps", "50"},
                       {"learning_rate", learning_rate}});
}

// Text that can be learned: counting words with a varying start.
Batch TextBatch(int64_t first, int64_t samples) {
  static constexpr char kText[] = "one two three four five six seven eight nine ten eleven twelve ";
  Batch batch{.samples = samples, .sample_tokens = kContext + 1, .tokens = {}};
  for (int64_t sample = first; sample < first + samples; ++sample) {
    for (int64_t i = 0; i <= kContext; ++i) batch.tokens.push_back(kText[(sample * 13 + i) % (sizeof(kText) - 1)]);
  }
  return batch;
}

// Trains steps [from, to); appends this rank's losses.
absl::Status Train(Strategy& strategy, int32_t rank, int32_t ranks, int64_t from, int64_t to,
                   std::vector<double>& losses) {
  const int64_t samples = kSamplesPerStep / ranks;
  for (int64_t step = from; step < to; ++step) {
    const Batch batch = TextBatch(step * kSamplesPerStep + rank * samples, samples);
    SW_ASSIGN_OR_RETURN(const StepResult result, strategy.TrainStep({batch}, step));
    losses.push_back(result.loss);
  }
  return absl::OkStatus();
}

// Losses by step, means over ranks.
std::vector<double> LossesOf(const WorldCase& world, const std::string& model, int64_t steps) {
  const auto storage = MakeMemoryStorage();
  std::vector<std::vector<double>> by_rank(world.ranks);
  const auto statuses = RunWorld(*storage, world, [&](Strategy& strategy, int32_t rank) -> absl::Status {
    SW_ASSIGN_OR_RETURN(auto module, MakeTiny(model));
    SW_RETURN_IF_ERROR(strategy.Setup(std::move(module)));
    return Train(strategy, rank, world.ranks, 0, steps, by_rank[rank]);
  });
  EXPECT_THAT(statuses, Each(IsOk()));
  std::vector<double> means(steps, 0);
  for (const std::vector<double>& losses : by_rank) {
    for (int64_t step = 0; step < steps; ++step) means[step] += losses.at(step) / world.ranks;
  }
  return means;
}

const std::vector<double>& ReferenceOf(const std::string& model) {
  static auto& known = *new std::map<std::string, std::vector<double>>;
  std::vector<double>& losses = known[model];
  if (losses.empty()) losses = LossesOf({.strategy = "single_device", .ranks = 1}, model, 50);
  return losses;
}

class TrainingTest : public ::testing::TestWithParam<std::tuple<WorldCase, std::string>> {
 protected:
  WorldCase world() const { return std::get<0>(GetParam()); }
  const std::string& model() const { return std::get<1>(GetParam()); }

  void ExpectFollows(const WorldCase& world, double tolerance) const {
    const std::vector<double>& reference = ReferenceOf(model());
    ASSERT_LT(reference.back(), 0.75 * reference.front()) << "the reference learns";
    const std::vector<double> losses = LossesOf(world, model(), 50);
    for (size_t step = 0; step < losses.size(); ++step) {
      EXPECT_LT(std::abs(losses[step] - reference[step]) / reference[step], tolerance) << "step " << step;
    }
  }
};

TEST_P(TrainingTest, FollowsSingleDevice) {
  WorldCase world = this->world();
  world.options.gradient_bucket_bytes = 16 * 1024;
  ExpectFollows(world, 1e-4);
}

TEST_P(TrainingTest, FollowsSingleDeviceInBFloat16) {
  WorldCase world = this->world();
  world.options.compute_dtype = DType::kBFloat16;
  ExpectFollows(world, 1e-2);
}

// Dropout draws from the process's generator, which ranks that are threads share: one rank may use it.
TEST_P(TrainingTest, StoppedAndResumedIsBitIdentical) {
  const WorldCase world = this->world();
  const std::string dropout = world.ranks == 1 ? "0.1" : "0";
  const auto storage = MakeMemoryStorage();
  constexpr int64_t kSteps = 9;
  std::vector<std::vector<double>> whole(world.ranks);
  ASSERT_THAT(RunWorld(*storage, world,
                       [&](Strategy& strategy, int32_t rank) -> absl::Status {
                         SW_ASSIGN_OR_RETURN(auto module, MakeTiny(model(), dropout));
                         SW_RETURN_IF_ERROR(strategy.Setup(std::move(module)));
                         SW_RETURN_IF_ERROR(Train(strategy, rank, world.ranks, 0, kSteps, whole[rank]));
                         return strategy.Save({.path = "whole"}).status();
                       }),
              Each(IsOk()));
  for (const int64_t stop : {1, 4, 8}) {
    const std::string path = absl::StrCat("stop", stop), end = absl::StrCat("end", stop);
    std::vector<std::vector<double>> losses(world.ranks);
    std::vector<Value::Map> random(world.ranks);
    ASSERT_THAT(RunWorld(*storage, world,
                         [&](Strategy& strategy, int32_t rank) -> absl::Status {
                           SW_ASSIGN_OR_RETURN(auto module, MakeTiny(model(), dropout));
                           SW_RETURN_IF_ERROR(strategy.Setup(std::move(module)));
                           SW_RETURN_IF_ERROR(Train(strategy, rank, world.ranks, 0, stop, losses[rank]));
                           random[rank] = strategy.RandomState();
                           return strategy.Save({.path = path, .rank_extras = {{"random", random[rank]}}}).status();
                         }),
                Each(IsOk()));
    ASSERT_THAT(RunWorld(*storage, world,
                         [&](Strategy& strategy, int32_t rank) -> absl::Status {
                           SW_ASSIGN_OR_RETURN(auto module, MakeTiny(model(), dropout));
                           SW_RETURN_IF_ERROR(strategy.Setup(std::move(module)));
                           SW_ASSIGN_OR_RETURN(const LoadResult loaded, strategy.Load({.path = path}));
                           const Value::Map& extras = loaded.manifest->data().rank_extras.at(rank);
                           SW_RETURN_IF_ERROR(strategy.SetRandomState(*extras.at("random").get_if<Value::Map>()));
                           SW_RETURN_IF_ERROR(Train(strategy, rank, world.ranks, stop, kSteps, losses[rank]));
                           return strategy.Save({.path = end}).status();
                         }),
                Each(IsOk()));
    EXPECT_EQ(losses, whole) << "stopped after step " << stop;
    EXPECT_EQ(TensorsOf(*storage, end), TensorsOf(*storage, "whole")) << "stopped after step " << stop;
  }
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, TrainingTest,
                         ::testing::Combine(::testing::ValuesIn(AllWorlds()), ::testing::Values("gpt", "moe_gpt")),
                         [](const auto& info) {
                           return absl::StrCat(CaseName(std::get<0>(info.param)), "_", std::get<1>(info.param));
                         });

// What a step frees is there for the next one, unless the strategy is made to hold little between steps.
TEST(StepMemoryTest, SteadyStepsAskTheSystemForLittle) {
  for (const WorldCase& world : AllWorlds()) {
    if (world.ranks > 1) continue;
    const auto storage = MakeMemoryStorage();
    EXPECT_THAT(RunWorld(*storage, world,
                         [&](Strategy& strategy, int32_t rank) -> absl::Status {
                           SW_ASSIGN_OR_RETURN(auto module, MakeTiny("gpt"));
                           SW_RETURN_IF_ERROR(strategy.Setup(std::move(module)));
                           std::vector<double> losses;
                           SW_RETURN_IF_ERROR(Train(strategy, rank, 1, 0, 3, losses));
                           const PagePool::Counters before = TensorPages().counters();
                           SW_RETURN_IF_ERROR(Train(strategy, rank, 1, 3, 6, losses));
                           const PagePool::Counters after = TensorPages().counters();
                           EXPECT_GT(after.most_in_use_bytes, 1 << 20) << "a step is large enough to tell";
                           if (strategy.name() == "zero3") {
                             EXPECT_EQ(after.kept_bytes, 0);
                           } else {
                             // Not nothing: where kept pages lie decides what they can be joined to.
                             EXPECT_LT((after.mapped_bytes - before.mapped_bytes) * 10,
                                       after.allocated_bytes - before.allocated_bytes);
                             EXPECT_GT(after.kept_bytes, 0);
                             SW_RETURN_IF_ERROR(strategy.Save({.path = "saved"}).status());
                             EXPECT_EQ(TensorPages().counters().kept_bytes, 0) << "saving has the memory to itself";
                           }
                           return absl::OkStatus();
                         }),
                Each(IsOk()))
        << CaseName(world);
  }
}

TEST(SingleDeviceTest, RefusesMoreThanOneRank) {
  const auto storage = MakeMemoryStorage();
  EXPECT_THAT(RunWorld(*storage, {.strategy = "single_device", .ranks = 2},
                       [](Strategy& strategy, int32_t rank) -> absl::Status {
                         SW_ASSIGN_OR_RETURN(auto module, MakeTiny("gpt"));
                         return strategy.Setup(std::move(module));
                       }),
              Each(StatusIs(absl::StatusCode::kInvalidArgument,
                            ::testing::HasSubstr("single_device runs in 1 process, got 2"))));
}

TEST(RandomStateTest, RestoredStateDrawsTheSameAndReseedingByRankAndStep) {
  const auto storage = MakeMemoryStorage();
  EXPECT_THAT(RunWorld(*storage, {.strategy = "single_device"},
                       [](Strategy& strategy, int32_t rank) -> absl::Status {
                         SW_ASSIGN_OR_RETURN(auto module, MakeTiny("gpt", "0.5"));
                         SW_RETURN_IF_ERROR(strategy.Setup(std::move(module)));
                         const Value::Map first = strategy.RandomState();
                         std::vector<double> losses;
                         SW_RETURN_IF_ERROR(Train(strategy, rank, 1, 0, 1, losses));
                         EXPECT_NE(strategy.RandomState(), first) << "dropout draws";
                         SW_RETURN_IF_ERROR(strategy.SetRandomState(first));
                         EXPECT_EQ(strategy.RandomState(), first);
                         strategy.ReseedRandom(1);
                         const Value::Map reseeded = strategy.RandomState();
                         EXPECT_NE(reseeded, first);
                         strategy.ReseedRandom(2);
                         EXPECT_NE(strategy.RandomState(), reseeded);
                         strategy.ReseedRandom(1);
                         EXPECT_EQ(strategy.RandomState(), reseeded);
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
}

TEST(RandomStateTest, StateOfAnotherShapeIsRefused) {
  const auto storage = MakeMemoryStorage();
  EXPECT_THAT(RunWorld(*storage, {.strategy = "single_device"},
                       [](Strategy& strategy, int32_t rank) -> absl::Status {
                         const auto invalid =
                             StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("torch_cpu"));
                         EXPECT_THAT(strategy.SetRandomState({}), invalid);
                         EXPECT_THAT(strategy.SetRandomState({{"torch_cpu", "text"}}), invalid);
                         EXPECT_THAT(strategy.SetRandomState({{"torch_cpu", Bytes{"short"}}}), invalid);
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
}

}  // namespace
}  // namespace shardwright::testing
