// The strategies that come with the project, by the name that --strategy takes.
#ifndef SHARDWRIGHT_STRATEGIES_STRATEGIES_H_
#define SHARDWRIGHT_STRATEGIES_STRATEGIES_H_

#include "shardwright/core/strategy/strategy.h"

namespace shardwright {

StrategyTable BuiltinStrategies();

}  // namespace shardwright

#endif  // SHARDWRIGHT_STRATEGIES_STRATEGIES_H_
