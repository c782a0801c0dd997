// Strategies on ranks that are threads: one storage, one checkpoint directory, any number of worlds after each other.
#ifndef SHARDWRIGHT_TESTS_CONFORMANCE_STRATEGY_STRATEGY_WORLD_H_
#define SHARDWRIGHT_TESTS_CONFORMANCE_STRATEGY_STRATEGY_WORLD_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/core/strategy/strategy.h"

namespace shardwright::testing {

// A strategy by its row, and how many ranks it runs on.
struct WorldCase {
  std::string strategy;
  int32_t ranks = 1;
  StrategyOptions options = {};
  Device device = {};
};
std::string CaseName(const WorldCase& world);
// Every row of BuiltinStrategies at every world size that it serves (of 1, 2, 3, 4).
std::vector<WorldCase> AllWorlds();

// Runs fn on each rank with a fresh strategy, not set up yet; statuses by rank. One torch thread a rank.
using RankFunction = std::function<absl::Status(Strategy& strategy, int32_t rank)>;
std::vector<absl::Status> RunWorld(Storage& storage, const WorldCase& world, const RankFunction& fn);

// Content of every tensor by name ("step"s included), from the checkpoint's own hashes.
std::vector<TensorEntry> TensorsOf(Storage& storage, const std::string& path);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_CONFORMANCE_STRATEGY_STRATEGY_WORLD_H_
