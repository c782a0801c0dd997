// What a rank asked its group for, as a value: validated, compared between ranks and printed. Private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_COLLECTIVE_CALL_H_
#define SHARDWRIGHT_CORE_COMM_COLLECTIVE_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright {

enum class Collective {
  kBarrier,
  kBroadcast,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllGatherBytes,
  kBroadcastBytes
};

// Ranks may work together only if their calls are equal. Fields that a collective does not have stay at their defaults.
struct CollectiveCall {
  Collective collective = Collective::kBarrier;
  DType dtype = DType::kInvalid;
  ReduceOp op = ReduceOp::kSum;
  int32_t root = -1;
  std::vector<int64_t> counts = {};  // elements, one of all or one per rank

  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
  // "AllReduce(sum of 12 F32)"
  std::string ToString() const;
  // Of all elements. Requires Validate.
  uint64_t TotalBytes() const;
  // First element of rank's piece.
  int64_t OffsetOf(int32_t rank) const;
};

// kInvalidArgument if no rank of a group of `size` can answer the call.
absl::Status Validate(const CollectiveCall& call, int32_t size);

// Counts `call`; messages are counted by their bytes.
void Count(const CollectiveCall& call, uint64_t message_bytes, CommCounters* counters);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_COLLECTIVE_CALL_H_
