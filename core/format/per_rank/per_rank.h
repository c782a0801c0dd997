// Files that each rank wrote with torch.save, holding its own parts of distributed tensors:
// model_world_size_2_rank_0.pt, model_world_size_2_rank_1.pt.
#ifndef SHARDWRIGHT_CORE_FORMAT_PER_RANK_PER_RANK_H_
#define SHARDWRIGHT_CORE_FORMAT_PER_RANK_PER_RANK_H_

#include "shardwright/core/format/format.h"

namespace shardwright {

// DTensors on meshes of one dimension and ShardedTensors; others are refused by name. The path is the folder, if it
// holds the files of one such save alone, or any of the files.
CheckpointFormat PerRankFormat();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_PER_RANK_PER_RANK_H_
