#include "shardwright/strategies/strategies.h"

#include "shardwright/strategies/ddp/ddp.h"
#include "shardwright/strategies/single_device/single_device.h"

namespace shardwright {

StrategyTable BuiltinStrategies() {
  return StrategyTable("strategy", {
                                       {"single_device", &MakeSingleDevice},
                                       {"ddp", &MakeDdp},
                                   });
}

}  // namespace shardwright
