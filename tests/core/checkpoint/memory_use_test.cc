// Memory and bytes: what a plan predicts bounds what a load takes.
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/checkpoint_runs.h"
#include "shardwright/tests/testing/fault_storage.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::FaultStorage;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::Load;
using ::shardwright::testing::Loaded;
using ::shardwright::testing::LoadSetup;
using ::shardwright::testing::MadeTensor;
using ::shardwright::testing::Make;
using ::shardwright::testing::Meta;
using ::shardwright::testing::RandomTensors;
using ::shardwright::testing::Save;
using ::shardwright::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

uint64_t HeaderBytes(Storage& storage) {
  const auto manifest = *OpenManifest(storage, "c");
  uint64_t bytes = 0;
  for (const FileMeta& file : manifest->files()) bytes += file.header_bytes;
  return bytes;
}

TEST(MemoryUseTest, MeasuredNeverExceedsPredicted) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::vector<MadeTensor> tensors = RandomTensors(random, 10, 600'000);
    const auto storage = MakeMemoryStorage();
    const int worlds[] = {1, 2, 3, 5, 8};
    ASSERT_THAT(Save(*storage, "c", tensors,
                     {.rule = PlacementRules().rows()[random() % 5].second,
                      .world_size = worlds[random() % 5],
                      .layout = random() % 2 ? SaveLayout::kSharded : SaveLayout::kSingleFile}),
                IsOk());
    LoadSetup setup{.rule = PlacementRules().rows()[random() % 5].second, .world_size = worlds[random() % 5]};
    setup.window_bytes = uint64_t{64} << (random() % 16);
    setup.options.verify_first = random() % 2;
    const uint64_t before = storage->counters().bytes_read.load();
    const Loaded loaded = Load(*storage, "c", tensors, setup);
    ASSERT_THAT(loaded.status(), IsOk());
    uint64_t predicted = HeaderBytes(*storage), reported = 0;
    for (int32_t rank = 0; rank < setup.world_size; ++rank) {
      EXPECT_EQ(loaded.budget_peaks[rank], loaded.totals[rank].transient_bytes);
      EXPECT_LE(loaded.reports[rank].transient_peak_bytes, loaded.totals[rank].transient_bytes);
      predicted += loaded.totals[rank].bytes_read * (setup.options.verify_first ? 2 : 1);
      reported += loaded.reports[rank].bytes_read;
    }
    EXPECT_EQ(reported, predicted);
    EXPECT_GE(storage->counters().bytes_read.load() - before, reported);
  }
}

TEST(MemoryUseTest, ABudgetThatIsTooSmallIsRefusedBeforeAByteMoves) {
  const auto base = MakeMemoryStorage();
  std::mt19937_64 random(1);
  const std::vector<MadeTensor> tensors = {Make(Meta("w", DType::kFloat32, {300, 1000}), random)};
  ASSERT_THAT(Save(*base, "c", tensors), IsOk());
  FaultStorage storage(*base);
  // The planner refuses.
  EXPECT_THAT(Load(storage, "c", tensors, {.window_bytes = 1 << 20, .budget_bytes = 1000}).statuses,
              Each(StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("budget"))));
  // One rank's own budget is smaller than what was planned for: nobody's state changes.
  std::vector<std::unique_ptr<testing::RankState>> states(3);
  const auto statuses = RunRanks(3, [&](CommGroups& groups) -> absl::Status {
    const int32_t rank = groups.rank();
    states[rank] = std::make_unique<testing::RankState>(tensors, &ReplicatedBox, rank, 3, testing::kPoison);
    SW_ASSIGN_OR_RETURN(std::shared_ptr<const Manifest> manifest, OpenManifest(storage, "c"));
    MatchResult matched = MatchTensors(LoadView(manifest), testing::Wanted(tensors), {}, {});
    SW_ASSIGN_OR_RETURN(const LoadPlan plan, PlanLoad(manifest, matched.tensors, &ReplicatedBox, World{3, 1},
                                                      LoadOrder{}, MemoryBudget::kUnlimited));
    MemoryBudget budget(rank == 1 ? 1000 : MemoryBudget::kUnlimited);
    LocalTensors sink(states[rank]->state());
    return LoadCheckpoint(storage, "c", plan, sink, {}, budget, *groups.checkpoint).status();
  });
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1000 bytes"))));
  EXPECT_THAT(statuses[2].ToString(), HasSubstr("rank 1: "));
  for (const auto& state : states)
    EXPECT_EQ(state->AllBytes(), std::string(state->AllBytes().size(), testing::kPoison));
}

TEST(MemoryUseTest, ReportsSayWhatTookHowLong) {
  const auto storage = MakeMemoryStorage();
  std::mt19937_64 random(1);
  const std::vector<MadeTensor> tensors = {Make(Meta("w", DType::kFloat32, {300, 1000}), random)};
  ASSERT_THAT(Save(*storage, "c", tensors), IsOk());
  const Loaded loaded = Load(*storage, "c", tensors);
  ASSERT_THAT(loaded.status(), IsOk());
  const LoadReport& report = loaded.reports[0];
  EXPECT_GT(report.read, absl::ZeroDuration());
  EXPECT_LE(report.wait + report.read + report.copy, report.duration + absl::Nanoseconds(1));
}

}  // namespace
}  // namespace shardwright
