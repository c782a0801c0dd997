// zero3: every rank holds its rows of each parameter and of the optimizer's state; a unit's parameters are whole only
// while it computes.
#ifndef SHARDWRIGHT_STRATEGIES_ZERO3_ZERO3_H_
#define SHARDWRIGHT_STRATEGIES_ZERO3_ZERO3_H_

#include <memory>

#include "shardwright/core/strategy/strategy.h"

namespace shardwright {

std::unique_ptr<Strategy> MakeZero3(const StrategyOptions& options, StrategyContext context);

}  // namespace shardwright

#endif  // SHARDWRIGHT_STRATEGIES_ZERO3_ZERO3_H_
