#include "shardwright/strategies/strategies.h"

#include "shardwright/strategies/ddp/ddp.h"
#include "shardwright/strategies/sharded_optimizer/sharded_optimizer.h"
#include "shardwright/strategies/single_device/single_device.h"
#include "shardwright/strategies/zero3/zero3.h"

namespace shardwright {

StrategyTable BuiltinStrategies() {
  StrategyTable table("strategy", {
                                      {"single_device", &MakeSingleDevice},
                                      {"ddp", &MakeDdp},
                                      {"zero1", &MakeZero1},
                                      {"zero2", &MakeZero2},
                                      {"zero3", &MakeZero3},
                                  });
  table.AddAlias("fsdp", "zero3");
  table.AddAlias("deepspeed_stage_1", "zero1");
  table.AddAlias("deepspeed_stage_2", "zero2");
  table.AddAlias("deepspeed_stage_3", "zero3");
  return table;
}

}  // namespace shardwright
