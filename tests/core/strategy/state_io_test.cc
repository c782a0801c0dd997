#include "shardwright/core/strategy/state_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/core/tensor/device_tensors.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ResultOf;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr char kPath[] = "step-00000001";

// A rank's tensors with memory of their own, and hooks that count.
struct FakeRank {
  std::vector<std::vector<float>> memory;
  LocalState state;
  OptimizerSpec optimizer;
  int saves = 0;
  int loads = 0;
  std::function<absl::Status(Value::Map&)> on_save = [](Value::Map&) { return absl::OkStatus(); };
  std::function<absl::Status(LoadView&)> on_load = [](LoadView&) { return absl::OkStatus(); };

  void Add(const std::string& name, int64_t elements, float value, Role role = Role::kParameter) {
    TensorMeta meta{.name = name, .dtype = DType::kFloat32, .shape = {elements}, .role = role};
    if (role == Role::kOptimizer) {
      meta.optimizer = {.index = 0, .parameter = name, .slot = "exp_avg"};
      meta.name = OptimizerTensorName(meta.optimizer);
    }
    memory.emplace_back(elements, value);
    state.push_back(
        {.meta = meta, .box = Box::Whole(meta.shape), .data = reinterpret_cast<char*>(memory.back().data())});
  }

  OwnedState Owned() {
    return {.strategy = "ddp",
            .rule = &ReplicatedBox,
            .threads = 3,
            .on_save =
                [this](Value::Map& extras) {
                  ++saves;
                  return on_save(extras);
                },
            .on_load =
                [this](LoadView& view) {
                  ++loads;
                  return on_load(view);
                },
            .optimizer = optimizer,
            .state = state};
  }
};

FakeRank Rank(float value) {
  FakeRank rank;
  rank.Add("a", 5, value);
  rank.Add("b", 3, value + 1);
  rank.Add("a", 5, value + 2, Role::kOptimizer);
  return rank;
}

class StateIoTest : public ::testing::Test {
 protected:
  // Runs fn on each rank with a context of its own.
  std::vector<absl::Status> OnRanks(
      std::vector<FakeRank>& ranks,
      const std::function<absl::Status(const StrategyContext& context, FakeRank& rank)>& fn) {
    const auto size = static_cast<int32_t>(ranks.size());
    return RunRanks(size, [&](CommGroups& groups) {
      MemoryBudget budget(budget_bytes_);
      const StrategyContext context{.groups = &groups,
                                    .storage = storage_.get(),
                                    .budget = &budget,
                                    .world = {.size = size, .ranks_per_node = size},
                                    .device = device_};
      return fn(context, ranks[groups.rank()]);
    });
  }

  std::vector<absl::Status> Save(std::vector<FakeRank>& ranks, const SaveRequest& request) {
    return OnRanks(ranks, [&](const StrategyContext& context, FakeRank& rank) -> absl::Status {
      return SaveState(context, options_, rank.Owned(), request).status();
    });
  }

  std::vector<absl::Status> Load(std::vector<FakeRank>& ranks, const LoadRequest& request) {
    return OnRanks(ranks, [&](const StrategyContext& context, FakeRank& rank) -> absl::Status {
      SW_ASSIGN_OR_RETURN(PreparedLoad prepared, PrepareLoad(context, options_, rank.Owned(), request));
      bool changed = false;
      return ExecuteLoad(context, prepared, rank.state, request, changed).status();
    });
  }

  void SaveFrom(float value) {
    std::vector<FakeRank> ranks = TwoRanks(value);
    ASSERT_THAT(Save(ranks, {.path = kPath}), Each(IsOk()));
  }

  static std::vector<FakeRank> TwoRanks(float value) {
    std::vector<FakeRank> ranks;
    ranks.push_back(Rank(value));
    ranks.push_back(Rank(value));
    return ranks;
  }

  StrategyOptions options_;
  Device device_;
  uint64_t budget_bytes_ = MemoryBudget::kUnlimited;
  std::unique_ptr<Storage> storage_ = MakeMemoryStorage();
};

TEST_F(StateIoTest, RoundTripsAndRunsEachHookOncePerRank) {
  std::vector<FakeRank> saved = TwoRanks(1.5);
  ASSERT_THAT(Save(saved, {.path = kPath}), Each(IsOk()));
  std::vector<FakeRank> loaded = TwoRanks(0);
  ASSERT_THAT(Load(loaded, {.path = kPath}), Each(IsOk()));
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(loaded[rank].memory, saved[rank].memory);
    EXPECT_EQ(saved[rank].saves, 1);
    EXPECT_EQ(saved[rank].loads, 0);
    EXPECT_EQ(loaded[rank].saves, 0);
    EXPECT_EQ(loaded[rank].loads, 1);
  }
}

TEST_F(StateIoTest, WritesExtrasProgressAndTopology) {
  std::vector<FakeRank> ranks = TwoRanks(1);
  ranks[0].on_save = [](Value::Map& extras) {
    extras["answer"] = 42;
    return absl::OkStatus();
  };
  const SaveRequest request{
      .path = kPath, .progress = {.step = 7, .epoch = 1, .samples_seen = 99}, .extras = {{"trainer", "x"}}};
  ASSERT_THAT(Save(ranks, request), Each(IsOk()));
  SW_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Manifest> manifest, OpenManifest(*storage_, kPath));
  const ManifestData& data = manifest->data();
  EXPECT_EQ(data.extras.at("module"), Value(Value::Map{{"answer", 42}}));
  EXPECT_EQ(data.extras.at("trainer"), Value("x"));
  EXPECT_EQ(data.extras.at("optimizer").get_if<Value::Map>()->at("kind"), Value("adamw"));
  EXPECT_EQ(data.progress, request.progress);
  EXPECT_EQ(data.topology, (Topology{.world_size = 2, .ranks_per_node = 2, .strategy = "ddp", .threads_per_rank = 3}));
}

TEST_F(StateIoTest, RefusesExtrasUnderTheStrategysOwnKeys) {
  std::vector<FakeRank> ranks = TwoRanks(1);
  EXPECT_THAT(Save(ranks, {.path = kPath, .extras = {{"optimizer", 1}}}),
              Each(StatusIs(kInvalidArgument, HasSubstr("\"optimizer\""))));
  EXPECT_FALSE(Exists(*storage_, kPath));
}

TEST_F(StateIoTest, AHookThatFailsOnOneRankEndsTheSaveOnAll) {
  std::vector<FakeRank> ranks = TwoRanks(1);
  ranks[1].on_save = [](Value::Map&) { return absl::NotFoundError("no vocabulary"); };
  EXPECT_THAT(
      Save(ranks, {.path = kPath}),
      Each(StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("OnSaveCheckpoint"), HasSubstr("no vocabulary")))));
  EXPECT_FALSE(Exists(*storage_, kPath));
}

TEST_F(StateIoTest, AHookThatFailsOnOneRankEndsTheLoadOnAll) {
  SaveFrom(1);
  std::vector<FakeRank> ranks = TwoRanks(0);
  const auto before = ranks[0].memory;
  ranks[1].on_load = [](LoadView& view) { return view.Drop("no.such.tensor"); };
  EXPECT_THAT(Load(ranks, {.path = kPath}), Each(StatusIs(absl::StatusCode::kNotFound, HasSubstr("OnLoadCheckpoint"))));
  EXPECT_EQ(ranks[0].memory, before);
  EXPECT_EQ(ranks[1].memory, before);
}

TEST_F(StateIoTest, EditsThatDifferBetweenRanksAreRefused) {
  SaveFrom(1);
  std::vector<FakeRank> ranks = TwoRanks(0);
  ranks[1].on_load = [](LoadView& view) { return view.Drop("b"); };
  EXPECT_THAT(Load(ranks, {.path = kPath}), Each(StatusIs(kInvalidArgument, HasSubstr("ranks 0 and 1"))));
}

TEST_F(StateIoTest, ADefectOfOneRankIsListedOnEveryRankAndNothingChanges) {
  SaveFrom(1);
  std::vector<FakeRank> ranks;
  ranks.push_back(Rank(0));
  FakeRank odd;
  odd.Add("a", 1, 0);  // another shape
  odd.Add("c", 3, 0);  // missing; b is unexpected
  odd.Add("a", 5, 0, Role::kOptimizer);
  ranks.push_back(std::move(odd));
  const auto before0 = ranks[0].memory, before1 = ranks[1].memory;
  EXPECT_THAT(
      Load(ranks, {.path = kPath}),
      Each(StatusIs(kInvalidArgument, AllOf(HasSubstr("shape of a: checkpoint [5], model [1] (rank 1)"),
                                            HasSubstr("missing: c (rank 1)"), HasSubstr("unexpected: b (rank 1)")))));
  EXPECT_EQ(ranks[0].memory, before0);
  EXPECT_EQ(ranks[1].memory, before1);
}

TEST_F(StateIoTest, LenientLoadsSkipAndSaySo) {
  SaveFrom(1);
  std::vector<FakeRank> ranks;
  for (int i = 0; i < 2; ++i) {
    FakeRank rank;
    rank.Add("a", 5, 0);
    rank.Add("new", 2, -1);
    ranks.push_back(std::move(rank));
  }
  const LoadRequest request{.path = kPath, .strict = false, .weights_only = true};
  EXPECT_THAT(OnRanks(ranks,
                      [&](const StrategyContext& context, FakeRank& rank) -> absl::Status {
                        SW_ASSIGN_OR_RETURN(PreparedLoad prepared,
                                            PrepareLoad(context, options_, rank.Owned(), request));
                        EXPECT_THAT(prepared.skipped, ElementsAre("missing: new", "unexpected: b"));
                        bool changed = false;
                        SW_RETURN_IF_ERROR(ExecuteLoad(context, prepared, rank.state, request, changed));
                        EXPECT_TRUE(changed);
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
  for (const FakeRank& rank : ranks) {
    EXPECT_THAT(rank.memory[0], Each(1.0f));
    EXPECT_THAT(rank.memory[1], Each(-1.0f));
  }
}

TEST_F(StateIoTest, AnotherKindOfOptimizerIsRefusedUnlessOnlyWeightsAreWanted) {
  SaveFrom(1);
  std::vector<FakeRank> ranks = TwoRanks(0);
  for (FakeRank& rank : ranks) rank.optimizer.kind = OptimizerKind::kSgd;
  EXPECT_THAT(Load(ranks, {.path = kPath}),
              Each(StatusIs(kInvalidArgument, AllOf(HasSubstr("adamw"), HasSubstr("sgd")))));
  EXPECT_THAT(Load(ranks, {.path = kPath, .strict = false}), Each(StatusIs(kInvalidArgument)));
  EXPECT_THAT(Load(ranks, {.path = kPath, .weights_only = true}), Each(IsOk()));
  EXPECT_THAT(ranks[0].memory[0], Each(1.0f));
  EXPECT_THAT(ranks[0].memory[2], Each(2.0f)) << "optimizer state is not of a weights-only load";
}

TEST_F(StateIoTest, ChangedHyperparametersAreNoted) {
  std::vector<FakeRank> ranks = TwoRanks(0);
  for (FakeRank& rank : ranks)
    rank.optimizer.groups = {{.parameters = {"a"}, .hyperparameters = {.learning_rate = 0.5}}};
  ASSERT_THAT(Save(ranks, {.path = kPath}), Each(IsOk()));
  for (FakeRank& rank : ranks) rank.optimizer.groups[0].hyperparameters.learning_rate = 0.25;
  EXPECT_THAT(OnRanks(ranks,
                      [&](const StrategyContext& context, FakeRank& rank) -> absl::Status {
                        SW_ASSIGN_OR_RETURN(PreparedLoad prepared,
                                            PrepareLoad(context, options_, rank.Owned(), {.path = kPath}));
                        EXPECT_THAT(prepared.notes, ElementsAre(HasSubstr("learning_rate was 0.5, is 0.25")));
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

TEST_F(StateIoTest, AnAbsentCheckpointIsNamedOnEveryRank) {
  std::vector<FakeRank> ranks = TwoRanks(0);
  EXPECT_THAT(Load(ranks, {.path = "nowhere"}), Each(StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere"))));
  EXPECT_EQ(ranks[0].loads, 0);
}

// Without --config=cuda, or without such a device.
TEST_F(StateIoTest, AStateOnADeviceThatIsNotThereIsRefusedByAllRanks) {
  SaveFrom(1);
  std::vector<FakeRank> ranks = TwoRanks(0);
  for (LocalTensor& tensor : ranks[1].state) tensor.device = Device::Cuda(100);
  device_ = Device::Cuda(100);
  const auto refused = Each(AllOf(Not(IsOk()), ResultOf([](const absl::Status& status) { return status.message(); },
                                                        HasSubstr("staging tensors of cuda:100"))));
  EXPECT_THAT(Load(ranks, {.path = kPath}), refused);
  EXPECT_THAT(Save(ranks, {.path = "again"}), refused);
  EXPECT_FALSE(Exists(*storage_, "again"));
}

TEST_F(StateIoTest, BuffersThatStageADeviceAreOfTheBudgetOfLoads) {
  SaveFrom(1);
  std::vector<FakeRank> ranks = TwoRanks(0);
  device_ = Device::Cuda(0);
  const uint64_t buffers = 2 * 2 * kDeviceWindowBytes;  // of two ranks
  for (const uint64_t more : {uint64_t{0}, uint64_t{1} << 20}) {
    budget_bytes_ = buffers + more;
    const auto planned = OnRanks(ranks, [&](const StrategyContext& context, FakeRank& rank) {
      return PrepareLoad(context, options_, rank.Owned(), {.path = kPath}).status();
    });
    if (more > 0) {
      EXPECT_THAT(planned, Each(IsOk()));
    } else {
      EXPECT_THAT(planned, Each(StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("0 bytes"))));
    }
  }
}

TEST_F(StateIoTest, ALoadThatFailsItsFirstPassLeavesTheStateUnchanged) {
  SaveFrom(1);
  SW_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Manifest> manifest, OpenManifest(*storage_, kPath));
  const ShardMeta& shard = manifest->Find("b")->shards.at(0);
  const std::string file = JoinPath(kPath, manifest->files()[shard.file].path);
  SW_ASSERT_OK_AND_ASSIGN(std::unique_ptr<WriteFile> writer, storage_->OpenWrite(file));
  ASSERT_THAT(writer->WriteAt(shard.offset_bytes, "\x7f"), IsOk());
  ASSERT_THAT(writer->Close(), IsOk());

  std::vector<FakeRank> ranks = TwoRanks(0);
  const auto before = ranks[0].memory;
  EXPECT_THAT(OnRanks(ranks,
                      [&](const StrategyContext& context, FakeRank& rank) -> absl::Status {
                        const LoadRequest request{.path = kPath};
                        SW_ASSIGN_OR_RETURN(PreparedLoad prepared,
                                            PrepareLoad(context, options_, rank.Owned(), request));
                        bool changed = false;
                        const auto report = ExecuteLoad(context, prepared, rank.state, request, changed);
                        EXPECT_FALSE(changed);
                        return report.status();
                      }),
              Each(StatusIs(absl::StatusCode::kDataLoss, HasSubstr("\"b\""))));
  EXPECT_EQ(ranks[0].memory, before);
  EXPECT_EQ(ranks[1].memory, before);
}

}  // namespace
}  // namespace shardwright
