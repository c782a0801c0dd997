#include "shardwright/tests/bench/unit_sizes.h"

#include <algorithm>
#include <map>

#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/module/torch_module.h"
#include "shardwright/core/module/units.h"
#include "shardwright/strategies/zero3/unit_shards.h"

namespace shardwright::bench {
namespace {

// So many ranks that the first one's share of any parameter is nothing.
constexpr int32_t kManyRanks = 1 << 30;

class ShardingHooks : public UnitHooks {
 public:
  void OnUnit(int unit, torch::nn::Module& module) override { shards_.AddUnit(unit, module); }
  UnitShards& shards() { return shards_; }

 private:
  UnitShards shards_{/*rank=*/0, kManyRanks, at::kCPU};
};

uint64_t LargestUnitOf(TorchModule& module) {
  ShardingHooks hooks;
  Units units(hooks);
  module.ConfigureShardedModel(units);
  hooks.shards().AddRoot(module);
  std::map<int, uint64_t> bytes;  // by unit
  uint64_t largest = 0;
  for (const NamedTorchTensor& named : NamedTensors(module)) {
    if (named.meta.role != Role::kParameter || !named.alias_of.empty()) continue;
    uint64_t& of_unit = bytes[hooks.shards().UnitOf(named.tensor)];
    of_unit += named.tensor.element_size() * static_cast<uint64_t>(named.tensor.numel());
    largest = std::max(largest, of_unit);
  }
  return largest;
}

}  // namespace

absl::StatusOr<uint64_t> LargestUnitBytes(std::unique_ptr<Module> module) {
  return CallTorch([&] { return LargestUnitOf(AsTorchModule(*module)); });
}

}  // namespace shardwright::bench
