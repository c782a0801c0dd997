// What moves the bytes of a c10d group: Gloo between hosts' memories, NCCL between GPUs. The communicator above it
// counts, checks, waits with a deadline and finds out who failed. Private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_TRANSPORT_H_
#define SHARDWRIGHT_CORE_COMM_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright {

// Something under way that touches the caller's memory.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // How it ended, with the codes of starting; nullopt if it is still under way at `deadline`.
  virtual std::optional<absl::Status> WaitUntil(absl::Time deadline) = 0;
  // After an error, with the transport broken: returns once no memory of the caller is touched any more.
  virtual void Settle() = 0;
};
using Transfers = std::vector<std::unique_ptr<Transfer>>;

// Starting is thread-compatible, in the same order on every rank; what was begun is added to `started`, also if then
// something fails: kInternal if it is this rank that does, else kUnavailable or kDeadlineExceeded. Pieces lie one after
// the other, in rank order.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual const char* name() const = 0;  // "Gloo"
  virtual bool CanReduce(DType dtype, ReduceOp op) const = 0;

  virtual absl::Status StartBroadcast(void* data, uint64_t bytes, int32_t root, Transfers* started) = 0;
  virtual absl::Status StartAllReduce(void* data, int64_t count, DType dtype, ReduceOp op, Transfers* started) = 0;
  // `bytes`: of each rank's piece.
  virtual absl::Status StartAllGather(void* data, absl::Span<const uint64_t> bytes, Transfers* started) = 0;
  virtual absl::Status StartReduceScatter(void* data, absl::Span<const int64_t> counts, DType dtype, ReduceOp op,
                                          Transfers* started) = 0;

  // Ends this rank's transfers with an error, those under way and later ones, and sooner or later the peers'. May be
  // called from any thread, and again.
  virtual void Break() = 0;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_TRANSPORT_H_
