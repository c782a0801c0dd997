// FENCE: host memory over c10d's Gloo. Private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_GLOO_TRANSPORT_H_
#define SHARDWRIGHT_CORE_COMM_GLOO_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/c10d_store.h"
#include "shardwright/core/comm/rank_environment.h"
#include "shardwright/core/comm/transport.h"

namespace shardwright {

// Connects with all ranks through `store`. While it runs, no other thread of this process may connect to anybody: new
// connections are taken for Gloo's own. `timeout` also ends transfers whose connections would not break.
absl::StatusOr<std::unique_ptr<Transport>> ConnectGloo(const RankEnvironment& environment, const C10dStore& store,
                                                       absl::Duration timeout);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_GLOO_TRANSPORT_H_
