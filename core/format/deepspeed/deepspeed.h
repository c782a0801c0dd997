// DeepSpeed's checkpoints: ZeRO stages 0 to 3, and the universal form that ds_to_universal makes of them.
#ifndef SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_DEEPSPEED_H_
#define SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_DEEPSPEED_H_

#include "shardwright/core/format/format.h"

namespace shardwright {

// Weights are the fp32 masters of stages 1 to 3, and what the module holds in stage 0, under their true names; buffers
// and frozen parameters keep their own types. Optimizer state is named after its parameters. Nothing is copied: shards
// point into the ranks' flat partitions.
CheckpointFormat DeepSpeedFormat();
CheckpointFormat DeepSpeedUniversalFormat();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_DEEPSPEED_H_
