#include "shardwright/core/manifest/manifest.h"

#include <functional>
#include <limits>

#include "shardwright/tests/core/manifest/sample_manifest.h"
#include "tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::SampleManifestData;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::TensorOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ManifestTest, AcceptsTheSampleAndFindsItsTensors) {
  const ManifestData data = SampleManifestData();
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, Manifest::Create(data));
  EXPECT_EQ(manifest->data(), data);
  ASSERT_NE(manifest->Find("wq"), nullptr);
  EXPECT_EQ(manifest->Find("wq")->shards.size(), 2u);
  EXPECT_EQ(manifest->Find("wk"), nullptr);
  const TensorEntry* tied = manifest->Find("head");
  ASSERT_NE(tied, nullptr);
  EXPECT_EQ(&manifest->Resolve(*tied), manifest->Find("embedding"));
  EXPECT_EQ(&manifest->Resolve(*manifest->Find("wq")), manifest->Find("wq"));
  EXPECT_EQ(manifest->TotalBytes(), 300u * 256 * 2 + 96 + 8 + 96);
}

// What checkpoints of other systems may hold, and native ones may not.
TEST(ForeignManifestTest, SharedBytesComputedTensorsStateAndForeignTypes) {
  const auto refused_natively = [](const std::function<void(ManifestData&)>& change, const char* message) {
    ManifestData data = SampleManifestData();
    change(data);
    EXPECT_THAT(Manifest::Create(data), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(message)));
    SW_ASSERT_OK_AND_ASSIGN(const auto manifest, Manifest::Create(data, ManifestKind::kForeign));
    EXPECT_EQ(manifest->kind(), ManifestKind::kForeign);
  };
  refused_natively(
      [](ManifestData& data) {
        TensorEntry view = TensorOf(data, "wq");
        view.meta.name = "view of wq";
        data.tensors.push_back(view);
      },
      "overlap in file");
  refused_natively(
      [](ManifestData& data) {
        TensorOf(data, "wq").shards.clear();
        TensorOf(data, "wq").computed = true;
      },
      "computed");
  refused_natively([](ManifestData& data) { TensorOf(data, "steps").meta.role = Role::kState; }, "state of the run");
  refused_natively(
      [](ManifestData& data) {
        data.tensors.push_back({.meta = {.name = "z", .dtype = DType::kComplex128, .shape = {0}}});
      },
      "C128");
}

TEST(ForeignManifestTest, OtherRulesHold) {
  ManifestData data = SampleManifestData();
  TensorOf(data, "wq").computed = true;
  EXPECT_THAT(Manifest::Create(data, ManifestKind::kForeign),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("computed, with 2 shards")));
  data = SampleManifestData();
  TensorOf(data, "wq").shards.pop_back();
  EXPECT_THAT(Manifest::Create(data, ManifestKind::kForeign), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("wq")));
}

TEST(ManifestTest, SortsTensorsByName) {
  ManifestData data = SampleManifestData();
  std::swap(data.tensors.front(), data.tensors.back());
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, Manifest::Create(data));
  EXPECT_EQ(manifest->data(), SampleManifestData());
}

TEST(ManifestTest, AcceptsWhatHasNoChecksums) {
  ManifestData data = SampleManifestData();
  TensorOf(data, "steps").shards[0].chunk_crc32c.clear();
  TensorOf(data, "steps").shards[0].hash = {};
  EXPECT_THAT(Manifest::Create(data), IsOk());
}

TEST(ManifestTest, AcceptsAnAliasOfAnEmptyTensorAndEmptyShards) {
  ManifestData data = SampleManifestData();
  data.tensors.push_back(TensorOf(data, "none"));
  data.tensors.back().meta.name = "tied.none";
  data.tensors.back().alias_of = "none";
  ShardMeta empty;
  empty.box = Box{{0, 0, 0}, {2, 0, 2}};
  TensorOf(data, "none").shards = {empty, empty};
  EXPECT_THAT(Manifest::Create(data), IsOk());
}

TEST(ManifestTest, LayoutNames) {
  EXPECT_THAT(ParseSaveLayout(SaveLayoutName(SaveLayout::kSharded)), IsOkAndHolds(SaveLayout::kSharded));
  EXPECT_THAT(ParseSaveLayout(SaveLayoutName(SaveLayout::kSingleFile)), IsOkAndHolds(SaveLayout::kSingleFile));
  EXPECT_THAT(ParseSaveLayout("single"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sharded, single_file")));
}

// One way to be wrong, and what the message must say.
struct BadCase {
  std::string name;
  std::function<void(ManifestData&)> spoil;
  std::vector<std::string> message;
};

class BadManifestTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadManifestTest, IsDataLossThatNamesThePlace) {
  ManifestData data = SampleManifestData();
  GetParam().spoil(data);
  const absl::StatusOr<std::shared_ptr<const Manifest>> manifest = Manifest::Create(data);
  for (const std::string& part : GetParam().message) {
    EXPECT_THAT(manifest, StatusIs(absl::StatusCode::kDataLoss, HasSubstr(part)));
  }
}

Value NestedValue(int depth) {
  Value value = 1;
  for (int i = 1; i < depth; ++i) value = Value::List{value};
  return value;
}

ShardMeta& ShardOf(ManifestData& data, absl::string_view name) {
  return TensorOf(data, name).shards[0];
}

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

const BadCase kTensorCases[] = {
    {"NoName", [](ManifestData& d) { TensorOf(d, "wq").meta.name = ""; }, {"tensor without a name"}},
    {"SameName", [](ManifestData& d) { d.tensors.push_back(TensorOf(d, "wq")); }, {"\"wq\" is listed twice"}},
    {"UnknownDType", [](ManifestData& d) { TensorOf(d, "wq").meta.dtype = static_cast<DType>(77); }, {"\"wq\"", "77"}},
    {"InvalidDType",
     [](ManifestData& d) { TensorOf(d, "wq").meta.dtype = DType::kInvalid; },
     {"\"wq\"", "type number 0"}},
    {"UnknownRole",
     [](ManifestData& d) { TensorOf(d, "wq").meta.role = static_cast<Role>(9); },
     {"\"wq\"", "role number 9"}},
    {"NegativeDimension", [](ManifestData& d) { TensorOf(d, "none").meta.shape[0] = -3; }, {"\"none\"", "[-3, 0, 2]"}},
    {"Overflow",
     [](ManifestData& d) {
       TensorOf(d, "none").meta.shape = {kMax, 0, 2};
     },
     {"\"none\"", "overflows"}},
    {"ItemOverflow", [](ManifestData& d) { TensorOf(d, "steps").meta.shape = {kMax / 4}; }, {"\"steps\"", "I64"}},
    {"TooManyDimensions", [](ManifestData& d) { TensorOf(d, "none").meta.shape.assign(65, 0); }, {"65 dimensions"}},
    {"OptimizerFields",
     [](ManifestData& d) { TensorOf(d, "wq").meta.optimizer.slot = "step"; },
     {"\"wq\"", "optimizer fields"}},
    {"Hole", [](ManifestData& d) { TensorOf(d, "wq").shards.pop_back(); }, {"\"wq\"", "no box covers [0:6, 1:4]"}},
    {"NoShards", [](ManifestData& d) { TensorOf(d, "steps").shards.clear(); }, {"\"steps\"", "no box covers []"}},
    {"Overlap",
     [](ManifestData& d) { TensorOf(d, "wq").shards.push_back(ShardOf(d, "wq")); },
     {"\"wq\"", "boxes 0 and 2 overlap"}},
    {"BoxOutside", [](ManifestData& d) { ShardOf(d, "wq").box.offset[1] = 4; }, {"\"wq\": shard 0", "dimension 1"}},
    {"BoxRank", [](ManifestData& d) { ShardOf(d, "wq").box.offset.push_back(0); }, {"3 offsets and 2 sizes"}},
    {"WrongLength",
     [](ManifestData& d) { ShardOf(d, "wq").length_bytes += 1; },
     {"\"wq\": shard 0: length of 25 bytes, want 24"}},
    {"NoSuchFile", [](ManifestData& d) { ShardOf(d, "wq").file = 3; }, {"\"wq\"", "file index 3"}},
    {"BehindEnd",
     [](ManifestData& d) { ShardOf(d, "wq").offset_bytes += 1; },
     {"\"wq\"", "not in the data of \"model-00000"}},
    {"FarBehindEnd",
     [](ManifestData& d) { ShardOf(d, "wq").offset_bytes = ~uint64_t{0} - 3; },
     {"\"wq\"", "not in the data"}},
    {"InHeader",
     [](ManifestData& d) { ShardOf(d, "embedding").offset_bytes = 127; },
     {"\"embedding\"", "bytes 128 to"}},
    {"OverlapInFile",
     [](ManifestData& d) { ShardOf(d, "wq").offset_bytes = ShardOf(d, "embedding").offset_bytes + 8; },
     {"\"embedding\" and \"wq\" overlap in file \"model-00000-of-00002.safetensors\" at byte 136"}},
    {"ChunkCount",
     [](ManifestData& d) { ShardOf(d, "embedding").chunk_crc32c.pop_back(); },
     {"1 chunk checksums, want 2"}},
    {"HashWithoutChunks", [](ManifestData& d) { ShardOf(d, "wq").chunk_crc32c.clear(); }, {"content hash without"}},
};

const BadCase kAliasCases[] = {
    {"WithShards",
     [](ManifestData& d) { TensorOf(d, "wq").alias_of = "embedding"; },
     {"\"wq\"", "2 shards of its own"}},
    {"OfNothing",
     [](ManifestData& d) { TensorOf(d, "head").alias_of = "e\n"; },
     {"\"head\": alias of \"e\\n\", which is not there"}},
    {"OfItself", [](ManifestData& d) { TensorOf(d, "head").alias_of = "head"; }, {"\"head\"", "an alias itself"}},
    {"OtherDType",
     [](ManifestData& d) { TensorOf(d, "head").meta.dtype = DType::kFloat16; },
     {"\"head\"", "BF16", "F16"}},
    {"OtherShape",
     [](ManifestData& d) {
       TensorOf(d, "head").meta.shape = {256, 300};
     },
     {"[300, 256]", "[256, 300]"}},
};

BadCase BadPath(const std::string& name, const std::string& path) {
  return {name, [path](ManifestData& d) { d.files[0].path = path; }, {"not a path inside the checkpoint"}};
}

const BadCase kFileCases[] = {
    BadPath("Empty", ""),
    BadPath("Absolute", "/etc/passwd"),
    BadPath("Parent", "../other/model.safetensors"),
    BadPath("InnerParent", "a/../../b"),
    BadPath("Dot", "./model.safetensors"),
    BadPath("DoubleSlash", "a//b"),
    BadPath("TrailingSlash", "a/"),
    BadPath("Nul", std::string("a\0b", 3)),
    BadPath("Backslash", "..\\b"),
    {"SamePath",
     [](ManifestData& d) { d.files[1].path = d.files[0].path; },
     {"\"model-00000-of-00002.safetensors\" is listed twice"}},
    {"LongHeader", [](ManifestData& d) { d.files[2].header_bytes = 1000; }, {"header of 1000 bytes in a file of 224"}},
    {"HugeSizes", [](ManifestData& d) { d.files[0].size_bytes = ~uint64_t{0}; }, {"overflows the total"}},
    {"HugeTotal",
     [](ManifestData& d) { d.files[0].size_bytes = d.files[1].size_bytes = uint64_t{1} << 62; },
     {"overflows the total"}},
};

const BadCase kRunCases[] = {
    {"Layout", [](ManifestData& d) { d.layout = static_cast<SaveLayout>(3); }, {"layout number 3"}},
    {"LoadMode", [](ManifestData& d) { d.load_order.mode = static_cast<LoadMode>(4); }, {"load mode number 4"}},
    {"Concurrency", [](ManifestData& d) { d.load_order.max_concurrent_per_node = -1; }, {"-1 ranks at once"}},
    {"WorldSize", [](ManifestData& d) { d.topology.world_size = 0; }, {"topology of 0 ranks"}},
    {"RanksPerNode", [](ManifestData& d) { d.topology.ranks_per_node = 0; }, {"0 per node"}},
    {"Threads", [](ManifestData& d) { d.topology.threads_per_rank = -1; }, {"-1 threads"}},
    {"Step", [](ManifestData& d) { d.progress.step = -1; }, {"step -1"}},
    {"Epoch", [](ManifestData& d) { d.progress.epoch = -1; }, {"epoch -1"}},
    {"Samples", [](ManifestData& d) { d.progress.samples_seen = -1; }, {"samples -1"}},
    {"RankExtras", [](ManifestData& d) { d.rank_extras.pop_back(); }, {"extras of 1 ranks, want none or 2"}},
    {"MinReader",
     [](ManifestData& d) { d.min_reader_version = 2; },
     {"format version 1 with minimum reader version 2"}},
    {"MinReaderZero", [](ManifestData& d) { d.min_reader_version = 0; }, {"minimum reader version 0"}},
    {"Depth", [](ManifestData& d) { d.extras["deep"] = NestedValue(65); }, {"extra \"deep\" is nested deeper than 64"}},
    {"RankDepth",
     [](ManifestData& d) {
       d.rank_extras[1]["deep"] = Value::Map{{"a", NestedValue(64)}};
     },
     {"rank 1: extra \"deep\""}},
};

std::string CaseName(const ::testing::TestParamInfo<BadCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Tensors, BadManifestTest, ::testing::ValuesIn(kTensorCases), CaseName);
INSTANTIATE_TEST_SUITE_P(Aliases, BadManifestTest, ::testing::ValuesIn(kAliasCases), CaseName);
INSTANTIATE_TEST_SUITE_P(Files, BadManifestTest, ::testing::ValuesIn(kFileCases), CaseName);
INSTANTIATE_TEST_SUITE_P(Run, BadManifestTest, ::testing::ValuesIn(kRunCases), CaseName);

}  // namespace
}  // namespace shardwright
