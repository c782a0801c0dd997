// FENCE (the .cc): tensors of which every rank has a copy.
#ifndef SHARDWRIGHT_CORE_STRATEGY_REPLICAS_H_
#define SHARDWRIGHT_CORE_STRATEGY_REPLICAS_H_

#include <vector>

#include "absl/status/status.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/strategy/torch_strategy.h"

namespace shardwright {

// Collective: every rank has rank 0's bytes afterwards.
absl::Status BroadcastFromRank0(Communicator& comm, const HeldTensor& held);

// Collective. Buffers that forward updates (running statistics) saw each rank's own samples: all go on with rank 0's,
// so that replicas are equal whenever they are saved.
absl::Status BroadcastBuffers(Communicator& comm, const std::vector<HeldTensor>& held);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_REPLICAS_H_
