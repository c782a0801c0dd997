// NodeGate: the ranks of a host go through it k at a time.
#ifndef SHARDWRIGHT_CORE_COMM_NODE_H_
#define SHARDWRIGHT_CORE_COMM_NODE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace shardwright {

// k lock files in shared memory, held by flock: the kernel frees a holder's lock when it dies, so a turn cannot be
// lost.
//
//   NodeGate gate(run_id, /*capacity=*/2);
//   { SW_ASSIGN_OR_RETURN(NodeGate::Turn turn, gate.Enter(absl::Minutes(10))); ... }   // the turn ends with the scope
//
// Thread-compatible; a process may hold several turns. Where a holder forks (without exec) and dies, its child keeps
// the turn.
class NodeGate {
 public:
  // Frees its turn when destroyed.
  class Turn {
   public:
    explicit Turn(int fd) : fd_(fd) {}
    Turn(Turn&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    int fd_;
  };

  // `key` is the same for the ranks of one run on one node and differs between runs; `capacity` is k, at least 1.
  NodeGate(std::string key, int32_t capacity);
  // Waits for one of the k places. kDeadlineExceeded naming the holders' process ids; kUnavailable if the files cannot
  // be made.
  absl::StatusOr<Turn> Enter(absl::Duration timeout) const;
  // Removes the lock files; call when no rank will enter again.
  void Remove() const;

 private:
  std::string PathOf(int32_t place) const;
  // The locked file of a place; -1 if somebody else has it.
  absl::StatusOr<int> TryLock(int32_t place) const;
  std::string Holders() const;

  std::string key_;
  int32_t capacity_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_NODE_H_
