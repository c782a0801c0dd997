#include "shardwright/tests/conformance/strategy/strategy_world.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/strategies/strategies.h"

namespace shardwright::testing {

std::string CaseName(const WorldCase& world) {
  return absl::StrCat(world.strategy, "_", world.ranks);
}

std::vector<WorldCase> AllWorlds() {
  std::vector<WorldCase> worlds;
  for (const std::string& name : BuiltinStrategies().Names()) {
    worlds.push_back({.strategy = name, .ranks = 1});
    if (name == "single_device") continue;
    for (const int32_t ranks : {2, 3, 4}) worlds.push_back({.strategy = name, .ranks = ranks});
  }
  return worlds;
}

std::vector<absl::Status> RunWorld(Storage& storage, const WorldCase& world, const RankFunction& fn) {
  return RunRanks(world.ranks, [&](CommGroups& groups) -> absl::Status {
    at::set_num_threads(1);
    MemoryBudget budget;
    const StrategyContext context{.groups = &groups,
                                  .storage = &storage,
                                  .budget = &budget,
                                  .world = {.size = world.ranks, .ranks_per_node = world.ranks},
                                  .device = world.device};
    const auto factory = BuiltinStrategies().Find(world.strategy);
    if (!factory.ok()) return factory.status();
    const std::unique_ptr<Strategy> strategy = (*factory)(world.options, context);
    return fn(*strategy, groups.rank());
  });
}

std::vector<TensorEntry> TensorsOf(Storage& storage, const std::string& path) {
  const auto manifest = OpenManifest(storage, path);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  if (!manifest.ok()) return {};
  return (*manifest)->tensors();
}

}  // namespace shardwright::testing
