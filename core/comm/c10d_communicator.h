// FENCE (the .cc, not this header): communicators over a world's groups. Private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_C10D_COMMUNICATOR_H_
#define SHARDWRIGHT_CORE_COMM_C10D_COMMUNICATOR_H_

#include "absl/status/statusor.h"
#include "shardwright/core/comm/c10d_options.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/comm/rank_environment.h"

namespace shardwright {

// As ConnectC10d, for worlds of more than one rank.
absl::StatusOr<CommGroups> ConnectC10dGroups(const RankEnvironment& environment, const C10dOptions& options);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_C10D_COMMUNICATOR_H_
