// single_device: one rank holds and does everything. The reference that the others follow.
#ifndef SHARDWRIGHT_STRATEGIES_SINGLE_DEVICE_SINGLE_DEVICE_H_
#define SHARDWRIGHT_STRATEGIES_SINGLE_DEVICE_SINGLE_DEVICE_H_

#include <memory>

#include "shardwright/core/strategy/strategy.h"

namespace shardwright {

// Setup refuses a world of more than one rank.
std::unique_ptr<Strategy> MakeSingleDevice(const StrategyOptions& options, StrategyContext context);

}  // namespace shardwright

#endif  // SHARDWRIGHT_STRATEGIES_SINGLE_DEVICE_SINGLE_DEVICE_H_
