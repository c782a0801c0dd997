// Any strategy at any world size goes on from what any other left: every pair, every tensor bit-equal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/strategies/strategies.h"
#include "shardwright/tests/conformance/strategy/strategy_world.h"
#include "shardwright/tests/conformance/strategy/toy_module.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::Each;

std::vector<WorldCase> ElasticWorlds() {
  std::vector<WorldCase> worlds = {{.strategy = "single_device", .ranks = 1}};
  for (const std::string& name : BuiltinStrategies().Names()) {
    if (name == "single_device") continue;
    for (const int32_t ranks : {1, 2, 3, 5, 8}) worlds.push_back({.strategy = name, .ranks = ranks});
  }
  return worlds;
}

// Whole tensors as stored, by name: how they are cut does not matter.
std::map<std::string, std::string> ContentOf(Storage& storage, const std::string& path) {
  std::map<std::string, std::string> content;
  const auto manifest = OpenManifest(storage, path);
  EXPECT_THAT(manifest, IsOk());
  if (!manifest.ok()) return content;
  for (const TensorEntry& entry : (*manifest)->tensors()) {
    std::string& bytes = content[entry.meta.name];
    bytes.resize(entry.meta.bytes());
    EXPECT_THAT(ReadBox(storage, path, **manifest, entry.meta.name, Box::Whole(entry.meta.shape), absl::MakeSpan(bytes),
                        CheckLevel::kFull),
                IsOk());
  }
  return content;
}

class ElasticTest : public ::testing::TestWithParam<WorldCase> {
 protected:
  // Trains two steps and saves.
  static void Make(Storage& storage, const WorldCase& world, const std::string& path) {
    ASSERT_THAT(RunWorld(storage, world,
                         [&](Strategy& strategy, int32_t rank) -> absl::Status {
                           SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule({})));
                           for (int64_t step = 0; step < 2; ++step) {
                             SW_RETURN_IF_ERROR(strategy.TrainStep({ToyBatch(step * world.ranks + rank, 1)}, step));
                           }
                           return strategy.Save({.path = path}).status();
                         }),
                Each(IsOk()));
  }

  // Loads into a world that started otherwise, and saves that.
  static void LoadAndSave(Storage& storage, WorldCase world, const std::string& from, const std::string& to) {
    world.options.seed = 77;
    ASSERT_THAT(RunWorld(storage, world,
                         [&](Strategy& strategy, int32_t rank) -> absl::Status {
                           SW_RETURN_IF_ERROR(strategy.Setup(MakeToyModule({})));
                           SW_RETURN_IF_ERROR(strategy.Load({.path = from}));
                           return strategy.Save({.path = to}).status();
                         }),
                Each(IsOk()));
  }
};

TEST_P(ElasticTest, EveryOtherWorldGoesOnFromIt) {
  for (const SaveLayout layout : {SaveLayout::kSharded, SaveLayout::kSingleFile}) {
    const auto storage = MakeMemoryStorage();
    WorldCase from = GetParam();
    from.options.save_layout = layout;
    Make(*storage, from, "saved");
    const auto saved = ContentOf(*storage, "saved");
    ASSERT_GT(saved.size(), 20u);
    for (const WorldCase& to : ElasticWorlds()) {
      const std::string resaved = CaseName(to);
      LoadAndSave(*storage, to, "saved", resaved);
      EXPECT_EQ(ContentOf(*storage, resaved), saved) << "into " << resaved << " from " << SaveLayoutName(layout);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllWorlds, ElasticTest, ::testing::ValuesIn(ElasticWorlds()),
                         [](const auto& info) { return CaseName(info.param); });

}  // namespace
}  // namespace shardwright::testing
