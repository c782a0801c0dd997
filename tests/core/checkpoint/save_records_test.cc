#include "shardwright/core/checkpoint/save_records.h"

#include "shardwright/tests/testing/state_maker.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::Meta;
using ::shardwright::testing::StatusIs;
using ::testing::ElementsAre;

SavePlan TwoFiles() {
  SavePlan plan;
  plan.files = {PlannedFile{"a", 0, 0, {}}, PlannedFile{"b", 1, 0, {}}};
  return plan;
}

TEST(HeaderRecordsTest, OneFromEachCreator) {
  const HeaderRecord a{0, 128, 1}, b{1, uint64_t{1} << 40, 0xffffffffu};
  EXPECT_THAT(
      DecodeHeaderRecords({EncodeHeaderRecords({}), EncodeHeaderRecords({b}), EncodeHeaderRecords({a})}, TwoFiles()),
      IsOkAndHolds(ElementsAre(a, b)));
}

TEST(HeaderRecordsTest, MissingDoubleAndUnknownFilesAreErrors) {
  const std::string a = EncodeHeaderRecords({{0, 1, 1}}), b = EncodeHeaderRecords({{1, 1, 1}});
  EXPECT_THAT(DecodeHeaderRecords({a}, TwoFiles()), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(DecodeHeaderRecords({a, b, a}, TwoFiles()), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(DecodeHeaderRecords({a, b, EncodeHeaderRecords({{2, 1, 1}})}, TwoFiles()),
              StatusIs(absl::StatusCode::kInternal));
  for (size_t length = 1; length < a.size(); ++length) {
    EXPECT_THAT(DecodeHeaderRecords({a.substr(0, length), b}, TwoFiles()), StatusIs(absl::StatusCode::kInternal));
  }
}

std::vector<WriteItem> Items() {
  return {WriteItem{0, 0, Box::Whole({10}), 0, 0, 10}, WriteItem{0, 1, Box::Whole({0}), 0, 10, 0},
          WriteItem{0, 2, Box::Whole({100000}), 0, 10, 100000}};
}

std::string Record() {
  Value::Map extras;
  extras["rng"] = Bytes{std::string(100, '\x80')};
  return *EncodeRankRecord(extras,
                           {ItemChecksums{{7}, {1, 2}}, ItemChecksums{{}, {3, 4}}, ItemChecksums{{8, 9}, {5, 6}}});
}

TEST(RankRecordTest, RoundTrip) {
  SW_ASSERT_OK_AND_ASSIGN(const RankRecord record, DecodeRankRecord(Record(), Items()));
  EXPECT_EQ(record.extras.at("rng"), Value(Bytes{std::string(100, '\x80')}));
  ASSERT_EQ(record.items.size(), 3u);
  EXPECT_THAT(record.items[2].chunks, ElementsAre(8, 9));
  EXPECT_EQ(record.items[2].hash, (ContentHash{5, 6}));
  EXPECT_TRUE(record.items[1].chunks.empty());
}

TEST(RankRecordTest, CutOrGrownMessagesAreErrors) {
  const std::string record = Record();
  for (size_t length = 0; length < record.size(); ++length) {
    EXPECT_FALSE(DecodeRankRecord(absl::string_view(record).substr(0, length), Items()).ok()) << length;
  }
  EXPECT_FALSE(DecodeRankRecord(record + "x", Items()).ok());
  std::string huge = record;
  for (int i = 0; i < 8; ++i) huge[i] = '\xff';
  EXPECT_THAT(DecodeRankRecord(huge, Items()), StatusIs(absl::StatusCode::kInternal));
}

TEST(BuildManifestTest, PutsTogetherWhatRanksWrote) {
  std::vector<SaveTensor> tensors = {{Meta("w", DType::kFloat32, {5}), ""}, {Meta("tied", DType::kFloat32, {5}), "w"}};
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan plan, PlanSave(tensors, &RowShardBox, World{2, 1}, {}));
  SaveContent content;
  content.topology.world_size = 2;
  const std::vector<HeaderRecord> headers = {{0, 64, 11}, {1, 64, 12}};
  const std::string zero = *EncodeRankRecord({}, {ItemChecksums{{7}, {1, 2}}});
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, BuildManifest(plan, content, headers, {zero, zero}));
  EXPECT_TRUE(manifest->data().rank_extras.empty());
  EXPECT_EQ(manifest->files()[1], (FileMeta{"model-00001-of-00002.safetensors", 64 + 12, 64, 12}));
  const TensorEntry& w = *manifest->Find("w");
  ASSERT_EQ(w.shards.size(), 2u);
  EXPECT_EQ(w.shards[1], (ShardMeta{Box{{2}, {3}}, 1, 64, 12, {7}, {1, 2}}));
  EXPECT_EQ(manifest->Find("tied")->alias_of, "w");
}

}  // namespace
}  // namespace shardwright
