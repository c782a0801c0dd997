// Ranks of ConnectC10d as threads of one process, each with its own connections to a store in this process.
#ifndef SHARDWRIGHT_TESTS_CONFORMANCE_COMM_C10D_RANKS_H_
#define SHARDWRIGHT_TESTS_CONFORMANCE_COMM_C10D_RANKS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/device/device.h"

namespace shardwright {

// As RunRanks of thread_communicator.h. The tensors of rank r's data group are on the CPU, or on GPU r.
std::vector<absl::Status> RunC10dRanks(int32_t size, Device::Kind kind,
                                       const std::function<absl::Status(CommGroups& groups)>& fn,
                                       absl::Duration timeout);

}  // namespace shardwright

#endif  // SHARDWRIGHT_TESTS_CONFORMANCE_COMM_C10D_RANKS_H_
