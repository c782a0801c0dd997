#include "shardwright/core/format/native/native.h"

#include "nlohmann/json.hpp"
#include "shardwright/core/manifest/codec.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/core/manifest/sample_manifest.h"
#include "tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::SampleManifestData;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kCheckpoint[] = "run/step-00000200";
constexpr char kManifestPath[] = "run/step-00000200/manifest.pb";

class OpenManifestTest : public ::testing::Test {
 protected:
  OpenManifestTest() { EXPECT_THAT(storage_->CreateDirectories(kCheckpoint), IsOk()); }

  void Write(const std::string& bytes) { ASSERT_THAT(WriteWholeFile(*storage_, kManifestPath, bytes), IsOk()); }
  void Write(const ManifestData& data) {
    SW_ASSERT_OK_AND_ASSIGN(const auto manifest, Manifest::Create(data));
    SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeManifest(*manifest));
    Write(bytes);
  }

  std::unique_ptr<Storage> storage_ = MakeMemoryStorage();
};

TEST_F(OpenManifestTest, ReadsTheManifestAlsoThroughALink) {
  Write(SampleManifestData());
  ASSERT_THAT(storage_->Symlink("step-00000200", "run/last"), IsOk());
  for (const char* path : {kCheckpoint, "run/step-00000200/", "run/last"}) {
    SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage_, path));
    EXPECT_EQ(manifest->data(), SampleManifestData());
  }
}

TEST_F(OpenManifestTest, TellsAbsentFromUnfinished) {
  EXPECT_THAT(OpenManifest(*storage_, "run/step-00000300"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("run/step-00000300: there is no such directory")));
  EXPECT_THAT(OpenManifest(*storage_, kCheckpoint),
              StatusIs(absl::StatusCode::kFailedPrecondition, AllOf(HasSubstr(kCheckpoint), HasSubstr("manifest.pb"))));
}

TEST_F(OpenManifestTest, DamageNamesTheFile) {
  Write("\x89SWCK\r\n\x1A and something");
  EXPECT_THAT(OpenManifest(*storage_, kCheckpoint), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(kManifestPath)));
}

TEST_F(OpenManifestTest, AFileIsNoCheckpoint) {
  Write(SampleManifestData());
  EXPECT_FALSE(OpenManifest(*storage_, kManifestPath).ok());
}

TEST_F(OpenManifestTest, BytesThatNothingCoversAreDataLoss) {
  ManifestData data = SampleManifestData();
  data.files[1].size_bytes += 1;
  Write(data);
  EXPECT_THAT(OpenManifest(*storage_, kCheckpoint),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("\"model-00001-of-00002.safetensors\""), HasSubstr("header and shards cover"))));
}

SavePlan SamplePlan() {
  SavePlan plan;
  for (const TensorEntry& entry : SampleManifestData().tensors) plan.tensors.push_back({entry.meta, entry.alias_of});
  PlannedFile file;
  file.path = "model-00000-of-00002.safetensors";
  file.entries = {{0, Box::Rows({300, 256}, 150, 300), 0, 76800},  // embedding
                  {4, Box::Whole({}), 76800, 8},                   // steps
                  {5, {{0, 1}, {6, 3}}, 76808, 72}};               // wq
  file.data_bytes = 76880;
  plan.files = {file};
  return plan;
}

TEST(NativeFileHeaderTest, HoldsTheBoxesOfParts) {
  const SavePlan plan = SamplePlan();
  SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, NativeFileHeader(plan, plan.files[0]));
  EXPECT_EQ(bytes.size() % 64, 0u);
  SW_ASSERT_OK_AND_ASSIGN(const safetensors::Header header,
                          safetensors::DecodeHeader(bytes, bytes.size() + plan.files[0].data_bytes));
  EXPECT_EQ(header.entries,
            std::vector<safetensors::Entry>({{"embedding@150,0", DType::kBFloat16, {150, 256}, 0, 76800},
                                             {"steps", DType::kInt64, {}, 76800, 76808},
                                             {"wq@0,1", DType::kFloat32, {6, 3}, 76808, 76880}}));
  EXPECT_EQ(header.metadata.at("format"), "pt");
  const auto boxes = nlohmann::json::parse(header.metadata.at("shardwright.boxes"), nullptr, false);
  const auto want = nlohmann::json::parse(
      R"({"embedding@150,0": {"tensor": "embedding", "shape": [300, 256], "offset": [150, 0]},
          "wq@0,1": {"tensor": "wq", "shape": [6, 4], "offset": [0, 1]}})");
  EXPECT_EQ(boxes, want);
}

TEST(NativeFileHeaderTest, WholeTensorsNeedNoBoxes) {
  SavePlan plan = SamplePlan();
  plan.files[0].entries = {{4, Box::Whole({}), 0, 8}};
  SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, NativeFileHeader(plan, plan.files[0]));
  SW_ASSERT_OK_AND_ASSIGN(const safetensors::Header header, safetensors::DecodeHeader(bytes, bytes.size() + 8));
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
}

TEST(NativeFileHeaderTest, AKeyThatIsTakenIsRefused) {
  SavePlan plan = SamplePlan();
  plan.tensors[4].meta.name = "wq@0,1";
  EXPECT_THAT(
      NativeFileHeader(plan, plan.files[0]),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(plan.files[0].path), HasSubstr("\"wq@0,1\""))));
}

TEST(DirectoryNameTest, StepsRoundTrip) {
  EXPECT_EQ(StepDirectoryName(200), "step-00000200");
  EXPECT_EQ(StepDirectoryName(200, 3), "step-00000200-v3");
  EXPECT_EQ(StepDirectoryName(1234567890), "step-1234567890");
  for (int64_t step : {int64_t{0}, int64_t{7}, int64_t{99999999}, int64_t{100000000}, INT64_MAX}) {
    for (int32_t version : {0, 1, 12, INT32_MAX}) {
      const std::optional<StepDirectory> parsed = ParseStepDirectoryName(StepDirectoryName(step, version));
      ASSERT_TRUE(parsed.has_value());
      EXPECT_EQ(parsed->step, step);
      EXPECT_EQ(parsed->version, version);
    }
  }
}

TEST(DirectoryNameTest, OtherNamesAreNoSteps) {
  for (const char* name : {"",
                           "step-",
                           "step-200",
                           "step-00000200x",
                           "xstep-00000200",
                           "step-00000200-v0",
                           "step-00000200-v",
                           "step-00000200-v01",
                           "step-00000200-v-1",
                           "step-00000200-v1-v2",
                           "step--0000200",
                           "step- 0000200",
                           "step-000000200",
                           "step-00000200/",
                           "step-99999999999999999999",
                           "step-00000200-v99999999999",
                           "last",
                           "Step-00000200",
                           "step-00000200-v1 ",
                           "step-+0000200"}) {
    EXPECT_FALSE(ParseStepDirectoryName(name).has_value()) << name;
  }
}

TEST(DirectoryNameTest, Temporaries) {
  const std::string name = TemporaryDirectoryName("step-00000200", "8f2c");
  EXPECT_EQ(name, ".tmp-step-00000200-8f2c");
  EXPECT_TRUE(IsTemporaryName(name));
  EXPECT_FALSE(ParseStepDirectoryName(name).has_value());
  for (const char* other : {"", ".tmp", ".tmp-", "tmp-x", "step-00000200"})
    EXPECT_FALSE(IsTemporaryName(other)) << other;
}

}  // namespace
}  // namespace shardwright
