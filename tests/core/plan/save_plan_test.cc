#include "shardwright/core/plan/save_plan.h"

#include <algorithm>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "shardwright/tests/testing/state_maker.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::AwkwardTensors;
using ::shardwright::testing::Meta;
using ::shardwright::testing::RandomTensors;
using ::shardwright::testing::StateMeta;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::ToSave;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

PlacementRule Rule(absl::string_view name) {
  return *PlacementRules().Find(name);
}

// Columns instead of rows.
Box ColumnBox(const TensorMeta& tensor, int32_t rank, int32_t world_size) {
  if (tensor.shape.size() < 2) return Box::Whole(tensor.shape);
  Box box = Box::Whole(tensor.shape);
  box.offset[1] = tensor.shape[1] * rank / world_size;
  box.size[1] = tensor.shape[1] * (rank + 1) / world_size - box.offset[1];
  return box;
}

// What must hold of every plan: each byte is written once by a rank that holds it, at its place, aligned.
void CheckPlan(const SavePlan& plan, PlacementRule rule) {
  std::map<uint32_t, std::vector<Box>> written;             // by tensor
  std::map<uint32_t, std::map<uint64_t, uint64_t>> ranges;  // by file: offset -> length
  for (const WriteItem& item : plan.items) {
    const TensorMeta& tensor = plan.tensors[item.tensor].meta;
    EXPECT_TRUE(plan.tensors[item.tensor].alias_of.empty());
    EXPECT_EQ(item.length_bytes, static_cast<uint64_t>(tensor.BytesOf(item.box))) << tensor.name;
    EXPECT_EQ(item.data_offset_bytes % static_cast<uint64_t>(ItemSize(tensor.dtype)), 0u) << tensor.name;
    if (item.length_bytes > 0) {
      EXPECT_TRUE(Contains(rule(tensor, item.rank, plan.world.size), item.box)) << tensor.name;
      EXPECT_TRUE(ranges[item.file].emplace(item.data_offset_bytes, item.length_bytes).second);
    }
    written[item.tensor].push_back(item.box);
  }
  for (uint32_t i = 0; i < plan.tensors.size(); ++i) {
    if (!plan.tensors[i].alias_of.empty()) continue;
    EXPECT_THAT(CheckTiling(Box::Whole(plan.tensors[i].meta.shape), written[i]), testing::IsOk());
    EXPECT_FALSE(written[i].empty()) << plan.tensors[i].meta.name;
  }
  for (uint32_t f = 0; f < plan.files.size(); ++f) {
    uint64_t next = 0;
    for (const auto& [offset, length] : ranges[f]) {
      EXPECT_EQ(offset, next) << plan.files[f].path;
      next = offset + length;
    }
    EXPECT_EQ(next, plan.files[f].data_bytes);
    uint64_t entry_next = 0;
    for (const FileEntry& entry : plan.files[f].entries) {
      EXPECT_EQ(entry.data_offset_bytes, entry_next);
      entry_next += entry.length_bytes;
      const bool optimizer = plan.tensors[entry.tensor].meta.role == Role::kOptimizer;
      EXPECT_EQ(plan.files[f].path.rfind("optimizer", 0) == 0, optimizer) << plan.files[f].path;
    }
    EXPECT_EQ(entry_next, plan.files[f].data_bytes);
  }
  EXPECT_TRUE(std::is_sorted(plan.items.begin(), plan.items.end(), [](const WriteItem& a, const WriteItem& b) {
    return std::tie(a.rank, a.file, a.data_offset_bytes) < std::tie(b.rank, b.file, b.data_offset_bytes);
  }));
}

TEST(SavePlanTest, EveryByteIsWrittenOnce) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<testing::MadeTensor> tensors = RandomTensors(random, 1 + static_cast<int>(random() % 30), 300000);
    if (random() % 2) {
      for (testing::MadeTensor& tensor : AwkwardTensors()) tensors.push_back(std::move(tensor));
    }
    const int32_t world = static_cast<int32_t>(std::vector<int>{1, 2, 3, 5, 8}[random() % 5]);
    const PlacementRule rule = PlacementRules().rows()[random() % PlacementRules().rows().size()].second;
    for (SaveLayout layout : {SaveLayout::kSharded, SaveLayout::kSingleFile}) {
      SW_ASSERT_OK_AND_ASSIGN(const SavePlan plan,
                              PlanSave(ToSave(tensors), rule, World{world, 2}, {.layout = layout}));
      CheckPlan(plan, rule);
    }
    SW_ASSERT_OK_AND_ASSIGN(const SavePlan columns, PlanSave(ToSave(tensors), &ColumnBox, World{world, 2}, {}));
    CheckPlan(columns, &ColumnBox);
  }
}

TEST(SavePlanTest, IsDeterministicWhateverTheOrderOfTheTensors) {
  std::mt19937_64 random(3);
  std::vector<SaveTensor> tensors = ToSave(AwkwardTensors());
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan plan, PlanSave(tensors, Rule("ddp"), World{3, 1}, {}));
  std::shuffle(tensors.begin(), tensors.end(), random);
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan again, PlanSave(tensors, Rule("ddp"), World{3, 1}, {}));
  EXPECT_EQ(plan, again);
}

TEST(SavePlanTest, ReplicasShareTheWorkOfBothLayouts) {
  std::vector<SaveTensor> tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back({Meta(absl::StrCat("t", i), DType::kFloat32, {100 + i, 250}), ""});
  for (SaveLayout layout : {SaveLayout::kSharded, SaveLayout::kSingleFile}) {
    SW_ASSERT_OK_AND_ASSIGN(const SavePlan plan, PlanSave(tensors, Rule("ddp"), World{4, 4}, {.layout = layout}));
    uint64_t least = UINT64_MAX, most = 0;
    for (int32_t rank = 0; rank < 4; ++rank) {
      least = std::min(least, plan.BytesOf(rank));
      most = std::max(most, plan.BytesOf(rank));
    }
    EXPECT_LE(most - least, 256u * 1024u);
    EXPECT_GT(least, 3'000'000u);
  }
}

TEST(SavePlanTest, FilesOfRanks) {
  const std::vector<SaveTensor> tensors = {{Meta("w", DType::kFloat32, {4}), ""},
                                           {StateMeta("w", "exp_avg", DType::kFloat32, {4}), ""}};
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan plan, PlanSave(tensors, Rule("zero3"), World{2, 2}, {}));
  std::vector<std::string> paths;
  for (const PlannedFile& file : plan.files) paths.push_back(absl::StrCat(file.creator, " ", file.path));
  EXPECT_THAT(paths, ElementsAre("0 model-00000-of-00002.safetensors", "0 optimizer-00000-of-00002.safetensors",
                                 "1 model-00001-of-00002.safetensors", "1 optimizer-00001-of-00002.safetensors"));
}

TEST(SavePlanTest, SingleFilesHoldWholeTensorsLargeItemsFirst) {
  const std::vector<SaveTensor> tensors = {{Meta("a", DType::kUInt8, {3}), ""},
                                           {Meta("b", DType::kFloat32, {4, 2}), ""},
                                           {Meta("c", DType::kBFloat16, {5}), ""}};
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan plan,
                          PlanSave(tensors, Rule("zero3"), World{2, 2}, {.layout = SaveLayout::kSingleFile}));
  ASSERT_EQ(plan.files.size(), 1u);
  EXPECT_EQ(plan.files[0].path, "model.safetensors");
  std::vector<std::string> keys;
  for (const FileEntry& entry : plan.files[0].entries)
    keys.push_back(FileKey(plan.tensors[entry.tensor].meta, entry.box));
  EXPECT_THAT(keys, ElementsAre("b", "c", "a"));
  EXPECT_EQ(plan.ItemsOf(1).front().data_offset_bytes, 16u);
}

TEST(SavePlanTest, AliasesAreNotWritten) {
  const std::vector<SaveTensor> tensors = {{Meta("wte", DType::kFloat32, {4}), ""},
                                           {Meta("head", DType::kFloat32, {4}), "wte"}};
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan plan, PlanSave(tensors, Rule("ddp"), World{}, {}));
  EXPECT_EQ(plan.items.size(), 1u);
  EXPECT_EQ(plan.tensors.size(), 2u);
}

TEST(SavePlanTest, RefusalsNameTheTensor) {
  const auto plan = [](std::vector<SaveTensor> tensors, PlacementRule rule = &ReplicatedBox, int32_t world = 2,
                       SaveLayout layout = SaveLayout::kSharded) {
    return PlanSave(std::move(tensors), rule, World{world, 1}, {.layout = layout}).status();
  };
  const SaveTensor w{Meta("w", DType::kFloat32, {4, 4}), ""};
  EXPECT_THAT(plan({w, w}), StatusIs(kInvalid, AllOf(HasSubstr("\"w\""), HasSubstr("two tensors"))));
  EXPECT_THAT(plan({{Meta("x", DType::kFloat32, {4}), "y"}}), StatusIs(kInvalid, HasSubstr("\"y\"")));
  EXPECT_THAT(plan({w, {Meta("x", DType::kFloat32, {4}), "w"}}), StatusIs(kInvalid, HasSubstr("\"x\"")));
  EXPECT_THAT(plan({{Meta("x", DType::kInvalid, {4}), ""}}), StatusIs(kInvalid, HasSubstr("dtype")));
  EXPECT_THAT(plan({{Meta("x", DType::kFloat32, {-1}), ""}}), StatusIs(kInvalid, HasSubstr("\"x\"")));
  EXPECT_THAT(plan({{Meta("x", DType::kFloat64, {INT64_MAX / 2}), ""}}), StatusIs(kInvalid, HasSubstr("overflow")));
  EXPECT_THAT(plan({{Meta("__metadata__", DType::kFloat32, {1}), ""}}), StatusIs(kInvalid, HasSubstr("reserve")));
  EXPECT_THAT(plan({{Meta("", DType::kFloat32, {1}), ""}}), StatusIs(kInvalid, HasSubstr("no name")));
  EXPECT_THAT(plan({w}, &ColumnBox, 2, SaveLayout::kSingleFile), StatusIs(kInvalid, HasSubstr("\"w\"")));
  EXPECT_THAT(plan({w}, &ReplicatedBox, 0), StatusIs(kInvalid));
  const PlacementRule hole = [](const TensorMeta& t, int32_t rank, int32_t) {
    return Box::Rows(t.shape, rank, rank + 1);
  };
  EXPECT_THAT(plan({w}, hole), StatusIs(kInvalid, HasSubstr("\"w\"")));
  const PlacementRule overlap = [](const TensorMeta& t, int32_t rank, int32_t) { return Box::Rows(t.shape, rank, 4); };
  EXPECT_THAT(plan({w}, overlap), StatusIs(kInvalid, HasSubstr("\"w\"")));
  const PlacementRule outside = [](const TensorMeta&, int32_t, int32_t) { return Box{{0, 0}, {5, 4}}; };
  EXPECT_THAT(plan({w}, outside), StatusIs(kInvalid, HasSubstr("\"w\"")));
}

TEST(SavePlanTest, ANameThatLooksLikeABoxDoesNotCollideSilently) {
  const std::vector<SaveTensor> tensors = {{Meta("w", DType::kFloat32, {4}), ""},
                                           {Meta("w@0", DType::kFloat32, {}), ""},
                                           {Meta("w@2", DType::kFloat32, {}), ""}};
  EXPECT_THAT(PlanSave(tensors, Rule("zero3"), World{2, 1}, {}), StatusIs(kInvalid, HasSubstr("w@")));
  EXPECT_THAT(PlanSave(tensors, Rule("ddp"), World{2, 1}, {}), testing::IsOk());
}

TEST(SavePlanTest, PeakIsAWindowOrLess) {
  const std::vector<SaveTensor> tensors = {{Meta("w", DType::kFloat32, {1000}), ""}};
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan small, PlanSave(tensors, Rule("ddp"), World{}, {}));
  EXPECT_EQ(small.peak_bytes_per_rank, 4000u);
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan window, PlanSave(tensors, Rule("ddp"), World{}, {.window_bytes = 100}));
  EXPECT_EQ(window.peak_bytes_per_rank, 100u);
}

TEST(SavePlanTest, NoTensorsNoFiles) {
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan plan, PlanSave({}, Rule("ddp"), World{2, 1}, {}));
  EXPECT_TRUE(plan.files.empty());
  EXPECT_EQ(plan.BytesOf(1), 0u);
}

TEST(SavePlanTest, ManyTensorsOfManyRanks) {
  std::vector<SaveTensor> tensors;
  for (int i = 0; i < 20000; ++i) tensors.push_back({Meta(absl::StrCat("layer.", i), DType::kFloat32, {2, 2}), ""});
  for (SaveLayout layout : {SaveLayout::kSharded, SaveLayout::kSingleFile}) {
    SW_ASSERT_OK_AND_ASSIGN(const SavePlan plan, PlanSave(tensors, Rule("ddp"), World{64, 8}, {.layout = layout}));
    EXPECT_EQ(plan.items.size(), 20000u);
  }
}

TEST(FileKeyTest, NamesBoxesByTheirOffset) {
  const TensorMeta tensor = Meta("a.b", DType::kFloat32, {6, 2});
  EXPECT_EQ(FileKey(tensor, Box::Whole(tensor.shape)), "a.b");
  EXPECT_EQ(FileKey(tensor, Box::Rows(tensor.shape, 3, 6)), "a.b@3,0");
  EXPECT_EQ(FileKey(Meta("s", DType::kFloat32, {}), Box::Whole({})), "s");
}

}  // namespace
}  // namespace shardwright
