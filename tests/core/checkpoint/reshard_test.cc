// Every rule and layout saved at N ranks loads bit-equal at M ranks under every rule.
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/checkpoint_runs.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::AwkwardTensors;
using ::shardwright::testing::CheckHolds;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::Load;
using ::shardwright::testing::Loaded;
using ::shardwright::testing::LoadSetup;
using ::shardwright::testing::MadeTensor;
using ::shardwright::testing::RandomTensors;
using ::shardwright::testing::Save;
using ::shardwright::testing::SaveSetup;
using ::testing::IsEmpty;

constexpr int32_t kWorlds[] = {1, 2, 3, 5, 8};
constexpr const char* kRules[] = {"ddp", "zero1", "zero3"};

void ExpectHolds(const Loaded& loaded, const std::vector<MadeTensor>& tensors) {
  ASSERT_THAT(loaded.status(), IsOk());
  for (const auto& state : loaded.states) EXPECT_THAT(state->Differences(tensors), IsEmpty());
}

class ReshardTest : public ::testing::TestWithParam<std::tuple<const char*, SaveLayout, int32_t>> {};

TEST_P(ReshardTest, LoadsBitEqualEverywhere) {
  const auto [rule_name, layout, world] = GetParam();
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  const auto storage = MakeMemoryStorage();
  ASSERT_THAT(storage->CreateDirectories("run"), IsOk());
  const SaveSetup save{.rule = *PlacementRules().Find(rule_name), .world_size = world, .layout = layout, .step = 3};
  ASSERT_THAT(Save(*storage, "run/step-00000003", tensors, save), IsOk());
  ASSERT_THAT(CheckHolds(*storage, "run/step-00000003", tensors), IsOk());
  for (const char* load_rule : kRules) {
    for (const int32_t load_world : kWorlds) {
      SCOPED_TRACE(absl::StrCat("into ", load_rule, " at ", load_world));
      LoadSetup load{.rule = *PlacementRules().Find(load_rule), .world_size = load_world};
      ExpectHolds(Load(*storage, "run/step-00000003", tensors, load), tensors);
      load.window_bytes = 1000;
      load.options.verify_first = false;
      ExpectHolds(Load(*storage, "run/step-00000003", tensors, load), tensors);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReshardTest,
                         ::testing::Combine(::testing::ValuesIn(kRules),
                                            ::testing::Values(SaveLayout::kSharded, SaveLayout::kSingleFile),
                                            ::testing::ValuesIn(kWorlds)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               std::string(SaveLayoutName(std::get<1>(info.param))), "_",
                                               std::get<2>(info.param));
                         });

// Columns for dimension 1, so that reads are not contiguous.
Box ColumnBox(const TensorMeta& tensor, int32_t rank, int32_t world_size) {
  Box box = Box::Whole(tensor.shape);
  if (tensor.shape.size() < 2) return box;
  box.offset[1] = tensor.shape[1] * rank / world_size;
  box.size[1] = tensor.shape[1] * (rank + 1) / world_size - box.offset[1];
  return box;
}

TEST(ReshardRandomTest, LargeAndSmallTensorsRowsAndColumns) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::vector<MadeTensor> tensors = RandomTensors(random, 12, 2'000'000);
    const auto storage = MakeMemoryStorage();
    SaveSetup save{.rule = random() % 2 ? &ColumnBox : &RowShardBox, .world_size = kWorlds[random() % 5]};
    ASSERT_THAT(Save(*storage, "c", tensors, save), IsOk());
    LoadSetup load{.rule = random() % 2 ? &ColumnBox : &RowShardBox, .world_size = kWorlds[random() % 5]};
    load.window_bytes = uint64_t{1000} << (random() % 14);
    load.options.verify_first = random() % 2;
    ExpectHolds(Load(*storage, "c", tensors, load), tensors);
  }
}

}  // namespace
}  // namespace shardwright
