// Communicator: one rank's view of a group of ranks. Few collectives, each with a deadline and a Status.
//
// Rules: the collectives of one communicator are called from one thread, in the same order on every rank. After any
// error the communicator is broken: every later call fails at once with the first error. A message names the rank that
// failed (it posted why) or that is missing (it did not answer in the grace period), as well as anyone can know.
#ifndef SHARDWRIGHT_CORE_COMM_COMMUNICATOR_H_
#define SHARDWRIGHT_CORE_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright {

enum class ReduceOp { kSum, kMin, kMax };

// A collective under way. Wait exactly once; destruction waits, too.
class Work {
 public:
  virtual ~Work() = default;
  virtual absl::Status Wait() = 0;
};

// Counts of calls and payload bytes since creation, of this rank.
struct CommCounters {
  int64_t barriers = 0;
  int64_t broadcasts = 0;
  int64_t all_reduces = 0;
  int64_t reduce_scatters = 0;
  int64_t all_gathers = 0;
  int64_t messages = 0;  // AllGatherBytes, BroadcastBytes
  uint64_t bytes = 0;
};

// kDeadlineExceeded past the deadline, kUnavailable if a peer failed or left, kInvalidArgument for a dtype it lacks.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int32_t rank() const = 0;
  virtual int32_t size() const = 0;

  virtual absl::Status Barrier() = 0;
  // `data` holds `count` elements on every rank; after it, root's.
  virtual absl::Status Broadcast(void* data, int64_t count, DType dtype, int32_t root) = 0;

  // These return at once. `data` is off limits until Wait; several may be under way, and are waited for in any order.
  //
  // After Wait, `data` is reduced over the ranks.
  virtual absl::StatusOr<std::unique_ptr<Work>> AllReduceAsync(void* data, int64_t count, DType dtype, ReduceOp op) = 0;
  // `data` holds the pieces of all ranks one after the other, counts[r] elements of rank r; this rank's piece is filled
  // in, in its place. After Wait all are.
  virtual absl::StatusOr<std::unique_ptr<Work>> AllGatherAsync(void* data, absl::Span<const int64_t> counts,
                                                               DType dtype) = 0;
  // The reverse: `data` holds pieces for all ranks. After Wait this rank's piece, in its place, is reduced over the
  // ranks; the contents of the other pieces are undefined.
  virtual absl::StatusOr<std::unique_ptr<Work>> ReduceScatterAsync(void* data, absl::Span<const int64_t> counts,
                                                                   DType dtype, ReduceOp op) = 0;

  // The same, waited for.
  absl::Status AllReduce(void* data, int64_t count, DType dtype, ReduceOp op);
  absl::Status AllGather(void* data, absl::Span<const int64_t> counts, DType dtype);
  absl::Status ReduceScatter(void* data, absl::Span<const int64_t> counts, DType dtype, ReduceOp op);

  // Small control messages of any length; index: rank.
  virtual absl::StatusOr<std::vector<std::string>> AllGatherBytes(absl::string_view message) = 0;
  // Returns root's message on every rank; others' is ignored.
  virtual absl::StatusOr<std::string> BroadcastBytes(absl::string_view message, int32_t root) = 0;

  // Tells the others that this rank has failed and leaves the group for good: their pending and later calls end with
  // kUnavailable naming this rank and `status`. Never blocks on peers.
  virtual void Abandon(const absl::Status& status) = 0;

  virtual CommCounters counters() const = 0;
};

// The communicators of a rank. Different ones may be used from different threads at the same time.
struct CommGroups {
  std::unique_ptr<Communicator> data;        // Gloo or NCCL: gradients, parameters
  std::unique_ptr<Communicator> control;     // Gloo: small messages of the training thread
  std::unique_ptr<Communicator> checkpoint;  // Gloo: the checkpoint writer alone

  int32_t rank() const { return control->rank(); }
  int32_t size() const { return control->size(); }
  // Abandons all three.
  void Abandon(const absl::Status& status) const;
};

// Collective: OK only if every rank passed OK; else the lowest failed rank's status on every rank, prefixed
// "rank 3: " where it is another's. Distinct failures of several ranks are counted in the message.
absl::Status AgreeOnStatus(Communicator& comm, const absl::Status& mine);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_COMMUNICATOR_H_
