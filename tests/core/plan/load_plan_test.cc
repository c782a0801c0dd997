#include "shardwright/core/plan/load_plan.h"

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "shardwright/core/plan/save_plan.h"
#include "shardwright/tests/testing/state_maker.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::MadeTensor;
using ::shardwright::testing::Make;
using ::shardwright::testing::Meta;
using ::shardwright::testing::RandomTensors;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::ToSave;
using ::shardwright::testing::Wanted;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kNoLimit = UINT64_MAX;

// What a save by this plan would leave, without the bytes.
std::shared_ptr<const Manifest> ManifestOf(const SavePlan& plan) {
  ManifestData data;
  data.layout = plan.layout;
  data.topology.world_size = plan.world.size;
  for (const PlannedFile& file : plan.files) data.files.push_back(FileMeta{file.path, file.data_bytes + 128, 128, 7});
  for (const SaveTensor& tensor : plan.tensors) data.tensors.push_back(TensorEntry{tensor.meta, tensor.alias_of, {}});
  for (const WriteItem& item : plan.items) {
    ShardMeta shard{item.box, item.file, item.data_offset_bytes + 128, item.length_bytes, {}, {}};
    shard.chunk_crc32c.resize((item.length_bytes + kChecksumChunkBytes - 1) / kChecksumChunkBytes);
    if (item.length_bytes > 0) shard.hash = {1, 2};
    data.tensors[item.tensor].shards.push_back(std::move(shard));
  }
  return *Manifest::Create(std::move(data));
}

std::shared_ptr<const Manifest> Saved(const std::vector<MadeTensor>& tensors, PlacementRule rule, int32_t world,
                                      SaveLayout layout = SaveLayout::kSharded) {
  return ManifestOf(*PlanSave(ToSave(tensors), rule, World{world, 1}, {.layout = layout}));
}

std::vector<LoadTensor> Matched(const std::shared_ptr<const Manifest>& manifest,
                                const std::vector<TensorMeta>& wanted) {
  MatchResult result = MatchTensors(LoadView(manifest), wanted, {}, {.allow_dtype_cast = true});
  EXPECT_THAT(ProblemsToStatus(result.problems), IsOk());
  return result.tensors;
}

LoadOrder Order(uint64_t window_bytes) {
  return LoadOrder{LoadMode::kConcurrent, 1, window_bytes};
}

PlacementRule AnyRule(std::mt19937_64& random) {
  return PlacementRules().rows()[random() % PlacementRules().rows().size()].second;
}

TEST(LoadPlanTest, ReadsCoverExactlyEachRanksBoxes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::vector<MadeTensor> tensors = RandomTensors(random, 1 + static_cast<int>(random() % 20), 300000);
    const int worlds[] = {1, 2, 3, 5, 8};
    const auto manifest = Saved(tensors, AnyRule(random), worlds[random() % 5],
                                random() % 2 ? SaveLayout::kSharded : SaveLayout::kSingleFile);
    const PlacementRule rule = AnyRule(random);
    const World world{worlds[random() % 5], 2};
    const uint64_t window = uint64_t{64} << (random() % 14);
    SW_ASSERT_OK_AND_ASSIGN(const LoadPlan plan, PlanLoad(manifest, Matched(manifest, Wanted(tensors)), rule, world,
                                                          Order(window), kNoLimit));
    for (int32_t rank = 0; rank < world.size; ++rank) {
      const std::vector<Read> reads = plan.ReadsOf(rank);
      EXPECT_TRUE(std::is_sorted(reads.begin(), reads.end(), [](const Read& a, const Read& b) {
        return std::tie(a.file, a.offset_bytes) < std::tie(b.file, b.offset_bytes);
      }));
      std::map<uint32_t, std::vector<Box>> boxes;
      for (const Read& read : reads) {
        const ShardMeta& shard = plan.ShardOf(read);
        EXPECT_LE(read.length_bytes, window);
        EXPECT_TRUE(Contains(shard.box, read.box));
        EXPECT_GE(read.offset_bytes, shard.offset_bytes);
        EXPECT_LE(read.offset_bytes + read.length_bytes, shard.offset_bytes + shard.length_bytes);
        EXPECT_EQ(read.contiguous, IsContiguous(shard.box, read.box));
        boxes[read.tensor].push_back(read.box);
      }
      for (uint32_t i = 0; i < plan.tensors().size(); ++i) {
        EXPECT_THAT(CheckTiling(plan.BoxOf(plan.tensors()[i], rank), boxes[i]), IsOk());
      }
      uint64_t widened = 0;
      size_t grouped = 0;
      for (const ReadGroup& group : plan.Group(reads)) {
        EXPECT_LE(group.range.length_bytes(), plan.staging().window_bytes);
        widened += group.range.length_bytes();
        EXPECT_EQ(group.first, grouped);
        grouped += group.count;
      }
      EXPECT_EQ(grouped, reads.size());
      EXPECT_EQ(plan.TotalsOf(rank).bytes_read, widened);
      EXPECT_EQ(plan.TotalsOf(rank).transient_bytes, plan.StagingBytes());
    }
  }
}

TEST(LoadPlanTest, AutoIsConcurrentAndOthersAreRefusedByName) {
  std::mt19937_64 random(1);
  const auto manifest = Saved(RandomTensors(random, 3, 1000), &ReplicatedBox, 1);
  const auto plan = [&](LoadMode mode) {
    return PlanLoad(manifest, {}, &ReplicatedBox, World{4, 2}, {mode, 1, 4096}, kNoLimit);
  };
  SW_ASSERT_OK_AND_ASSIGN(const LoadPlan automatic, plan(LoadMode::kAuto));
  EXPECT_EQ(automatic.order().mode, LoadMode::kConcurrent);
  EXPECT_EQ(automatic.Waves(), (std::vector<std::vector<int32_t>>{{0, 1, 2, 3}}));
  EXPECT_THAT(plan(LoadMode::kSerialized), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("serialized")));
  EXPECT_THAT(plan(LoadMode::kBroadcast), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("broadcast")));
}

TEST(LoadPlanTest, RefusesWhatDoesNotFitNamingNeedAndAllowance) {
  std::mt19937_64 random(1);
  const std::vector<MadeTensor> tensors = {Make(Meta("w", DType::kFloat32, {1000, 1000}), random)};
  const auto manifest = Saved(tensors, &ReplicatedBox, 1);
  const World world{4, 2};
  SW_ASSERT_OK_AND_ASSIGN(const LoadPlan plan, PlanLoad(manifest, Matched(manifest, Wanted(tensors)), &ReplicatedBox,
                                                        world, Order(1 << 20), kNoLimit));
  EXPECT_EQ(plan.StagingBytes(), (1u << 20) + 2 * kChecksumChunkBytes);
  EXPECT_EQ(plan.NodePeakBytes(1), 2 * plan.StagingBytes());
  EXPECT_THAT(PlanLoad(manifest, Matched(manifest, Wanted(tensors)), &ReplicatedBox, world, Order(1 << 20),
                       plan.NodePeakBytes(0)),
              IsOk());
  EXPECT_THAT(PlanLoad(manifest, Matched(manifest, Wanted(tensors)), &ReplicatedBox, world, Order(1 << 20),
                       plan.NodePeakBytes(0) - 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("ranks 0 to 1"), HasSubstr("2.25 MiB"), HasSubstr("window_bytes"))));
}

TEST(LoadPlanTest, DerivedTensorsCountAndAreNamedWhenTheyDoNotFit) {
  std::mt19937_64 random(1);
  const std::vector<MadeTensor> tensors = {Make(Meta("q", DType::kFloat32, {1000, 1000}), random),
                                           Make(Meta("k", DType::kFloat32, {1000, 1000}), random)};
  const auto manifest = Saved(tensors, &ReplicatedBox, 1);
  LoadView view(manifest);
  ASSERT_THAT(view.Derive(Meta("qk", DType::kFloat32, {2000, 1000}), {"q", "k"},
                          [](const auto&, auto) { return absl::OkStatus(); }),
              IsOk());
  const std::vector<LoadTensor> wanted = {{Meta("qk", DType::kFloat32, {2000, 1000}), *view.Find("qk")}};
  SW_ASSERT_OK_AND_ASSIGN(const LoadPlan plan,
                          PlanLoad(manifest, wanted, &RowShardBox, World{2, 2}, Order(1 << 20), kNoLimit));
  EXPECT_EQ(plan.staging().derive_bytes, 16'000'000u);
  EXPECT_TRUE(plan.ReadsOf(0).empty());
  EXPECT_GE(plan.TotalsOf(0).bytes_read, 8'000'000u);
  EXPECT_EQ(plan.TotalsOf(0).bytes_needed, 4'000'000u);
  EXPECT_THAT(PlanLoad(manifest, wanted, &RowShardBox, World{2, 2}, Order(1 << 20), 1 << 20),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("deriving \"qk\"")));
}

TEST(LoadPlanTest, CastsAddAWindow) {
  std::mt19937_64 random(1);
  const std::vector<MadeTensor> tensors = {Make(Meta("w", DType::kBFloat16, {1000, 1000}), random)};
  const auto manifest = Saved(tensors, &ReplicatedBox, 1);
  SW_ASSERT_OK_AND_ASSIGN(const LoadPlan plan,
                          PlanLoad(manifest, Matched(manifest, {Meta("w", DType::kFloat32, {1000, 1000})}),
                                   &ReplicatedBox, World{}, Order(4096), kNoLimit));
  EXPECT_EQ(plan.staging().cast_bytes, 4096u);
  for (const Read& read : plan.ReadsOf(0)) EXPECT_LE(read.length_bytes, 2048u);
}

TEST(LoadPlanTest, SourcesMustFitTheirTargets) {
  std::mt19937_64 random(1);
  const std::vector<MadeTensor> tensors = {Make(Meta("w", DType::kFloat32, {4}), random)};
  const auto manifest = Saved(tensors, &ReplicatedBox, 1);
  const auto plan = [&](const std::function<void(LoadTensor&)>& spoil) {
    std::vector<LoadTensor> matched = Matched(manifest, Wanted(tensors));
    spoil(matched[0]);
    return PlanLoad(manifest, matched, &ReplicatedBox, World{}, Order(4096), kNoLimit).status();
  };
  const auto invalid = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"w\""));
  EXPECT_THAT(plan([](LoadTensor& t) { t.source.source = "nope"; }), invalid);
  EXPECT_THAT(plan([](LoadTensor& t) { t.target.shape = {5}; }), invalid);
  EXPECT_THAT(plan([](LoadTensor& t) { t.target.dtype = DType::kInt32; }), invalid);
  EXPECT_THAT(plan([](LoadTensor& t) { t.source.stored_dtype = DType::kFloat16; }), invalid);
  EXPECT_THAT(plan([](LoadTensor& t) { t.source.source.clear(); }), invalid);
  EXPECT_THAT(PlanLoad(manifest, {}, &ReplicatedBox, World{}, Order(1), kNoLimit),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("window")));
}

TEST(LoadPlanTest, RanksOfAnotherWorldReadLittleMoreThanTheyNeed) {
  std::mt19937_64 random(1);
  const std::vector<MadeTensor> tensors = {Make(Meta("w", DType::kFloat32, {4000, 3000}), random)};
  const auto manifest = Saved(tensors, &RowShardBox, 3);
  SW_ASSERT_OK_AND_ASSIGN(const LoadPlan plan, PlanLoad(manifest, Matched(manifest, Wanted(tensors)), &RowShardBox,
                                                        World{5, 1}, Order(8 << 20), kNoLimit));
  for (int32_t rank = 0; rank < 5; ++rank) {
    const RankTotals totals = plan.TotalsOf(rank);
    EXPECT_LE(static_cast<double>(totals.bytes_read), 1.05 * static_cast<double>(totals.bytes_needed));
  }
}

TEST(LoadPlanTest, ManyTensorsAndManyShards) {
  std::vector<SaveTensor> tensors;
  for (int i = 0; i < 20000; ++i) tensors.push_back({Meta(absl::StrCat("t", i), DType::kFloat32, {4}), ""});
  tensors.push_back({Meta("wide", DType::kFloat32, {4096, 4}), ""});
  std::vector<TensorMeta> wanted;
  for (const SaveTensor& tensor : tensors) wanted.push_back(tensor.meta);
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan saved, PlanSave(tensors, &RowShardBox, World{1024, 8}, {}));
  const auto manifest = ManifestOf(saved);
  SW_ASSERT_OK_AND_ASSIGN(const LoadPlan plan, PlanLoad(manifest, Matched(manifest, wanted), &RowShardBox,
                                                        World{512, 8}, Order(8 << 20), kNoLimit));
  EXPECT_EQ(plan.TotalsOf(7).bytes_needed, 8 * 16u);  // two shards of "wide", a row of no other: 4 rows over 512 ranks
}

}  // namespace
}  // namespace shardwright
