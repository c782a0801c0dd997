// ddp: every rank holds everything and brings its own samples; gradients are averaged while backward runs.
#ifndef SHARDWRIGHT_STRATEGIES_DDP_DDP_H_
#define SHARDWRIGHT_STRATEGIES_DDP_DDP_H_

#include <memory>

#include "shardwright/core/strategy/strategy.h"

namespace shardwright {

std::unique_ptr<Strategy> MakeDdp(const StrategyOptions& options, StrategyContext context);

}  // namespace shardwright

#endif  // SHARDWRIGHT_STRATEGIES_DDP_DDP_H_
