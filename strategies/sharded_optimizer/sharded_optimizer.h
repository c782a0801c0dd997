// zero1, zero2: every rank holds all parameters, and steps its rows of each with its rows of the optimizer's state.
#ifndef SHARDWRIGHT_STRATEGIES_SHARDED_OPTIMIZER_SHARDED_OPTIMIZER_H_
#define SHARDWRIGHT_STRATEGIES_SHARDED_OPTIMIZER_SHARDED_OPTIMIZER_H_

#include <memory>

#include "shardwright/core/strategy/strategy.h"

namespace shardwright {

// Gradients are whole on every rank until the step's last micro-batch is reduced.
std::unique_ptr<Strategy> MakeZero1(const StrategyOptions& options, StrategyContext context);
// Gradients are sharded, too: each micro-batch's are reduced during its backward and freed.
std::unique_ptr<Strategy> MakeZero2(const StrategyOptions& options, StrategyContext context);

}  // namespace shardwright

#endif  // SHARDWRIGHT_STRATEGIES_SHARDED_OPTIMIZER_SHARDED_OPTIMIZER_H_
