// Whole parameters out of ZeRO's flat partitions, as pieces: nothing is copied.
#ifndef SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_ZERO_ASSEMBLY_H_
#define SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_ZERO_ASSEMBLY_H_

#include <vector>

#include "absl/status/status.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/deepspeed/zero_state.h"

namespace shardwright::deepspeed {

// Adds the fp32 weights and the optimizer's state of all parameters. kDataLoss unless the ranks agree with each other
// and their partitions hold just what the shapes say.
//
// Stages 1 and 2: the parameters of a group, one behind the other, are cut into one partition per rank.
//
//   group    [ p0 | p1      | p2 | padding ]
//   ranks    [ 0        | 1          ]
absl::Status AddPartitioned(CheckpointBuilder& builder, const std::vector<RankState>& ranks,
                            const std::vector<std::vector<Parameter>>& groups);

// Stage 3: each parameter is cut by itself into one piece per rank, of equal length, the last ones padded.
//
//   rank 0   [ p0: 0.. | p1: 0.. | p2: 0.. ]
//   rank 1   [ p0: n.. | p1: m.. | p2: k.. ]
absl::Status AddScattered(CheckpointBuilder& builder, const std::vector<RankState>& ranks,
                          const std::vector<std::vector<Parameter>>& groups);

// The frozen parameters of stage 3, scattered over the ranks' model files in the same way.
absl::Status AddScatteredFrozen(CheckpointBuilder& builder, const std::vector<ModelState>& models);

}  // namespace shardwright::deepspeed

#endif  // SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_ZERO_ASSEMBLY_H_
