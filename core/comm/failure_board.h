// FailureBoard: who failed, and why, when a collective ends badly. Private to core/comm.
//
//   failure              rank, code and message of the first rank that abandoned a group
//   group/<g>/reason     the first call of group g that broke off: code and what it was
//   group/<g>/gave_up/r  rank r's call in group g, which ended with it
//   alive/r              rank r's process lives (its watcher answered an alarm)
//   left/r               rank r has destroyed its groups
//   wake/r/k             the k-th alarm, for rank r's watcher; the value is the group
#ifndef SHARDWRIGHT_CORE_COMM_FAILURE_BOARD_H_
#define SHARDWRIGHT_CORE_COMM_FAILURE_BOARD_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/key_value_store.h"

namespace shardwright {

// A call that ended badly, as its own rank saw it.
struct BrokenCall {
  std::string group;    // "data"
  std::string call;     // "AllReduce(sum of 12 F32)"
  absl::Status status;  // kDeadlineExceeded or kUnavailable: what happened here
};

// One rank's view of the board. Thread-safe. Borrows the store.
class FailureBoard {
 public:
  // `store_name` tells where the store is and who serves it, for messages.
  FailureBoard(KeyValueStore& store, std::string store_name, int32_t rank, int32_t size, absl::Duration grace);

  // Tells that this rank failed and ends the others' calls in `group`; the first failure of the world stays. A rank
  // that has seen another's failure, or a call break off, only ends the calls: it fails because of that. True if this
  // was a failure of its own.
  bool PostFailure(absl::string_view group, const absl::Status& status);

  // Tells that a call of this rank broke off, and ends the others' calls in its group. To be called before this rank
  // lets its connections go: the first to post tells all why.
  void PostBroken(const BrokenCall& broken);

  // After PostBroken: waits, at most for the grace period, for the others' words. Returns what to tell the caller:
  // "rank 1 failed: ...", or who did not answer. Never OK.
  absl::Status Explain(const BrokenCall& broken);

  // For the watcher, with a store of its own that may block: waits for the k-th alarm, answers that this process lives,
  // and returns the group whose calls are to end; nullopt once StopWatching was called.
  absl::StatusOr<std::optional<std::string>> AwaitAlarm(KeyValueStore& watcher_store, int64_t k);
  absl::Status StopWatching();

  // Those of `ranks' "<prefix>/<rank>" that are not there.
  absl::StatusOr<std::vector<int32_t>> Missing(absl::string_view prefix);
  std::vector<std::string> KeysOfAll(absl::string_view prefix) const;

 private:
  void RaiseAlarm(absl::string_view group);
  // The world's first failure as this rank should report it; OK if none was posted. The results of these three are
  // errors of the store.
  absl::Status ReadFailure(KeyValueStore& store, absl::Status* failure);
  absl::Status AwaitWords(const BrokenCall& broken, absl::Status* answer);
  absl::Status NameTheMissing(const BrokenCall& broken, absl::Status* answer);
  absl::StatusOr<std::string> CallsOfAll(absl::string_view group);
  absl::Status LostStore(const BrokenCall& broken, const absl::Status& error) const;
  absl::Status Known() const;

  KeyValueStore& store_;
  const std::string store_name_;
  const int32_t rank_;
  const int32_t size_;
  const absl::Duration grace_;

  mutable absl::Mutex mu_;
  absl::Status known_failure_ ABSL_GUARDED_BY(mu_);  // another's, once seen
  bool saw_break_ ABSL_GUARDED_BY(mu_) = false;      // a call of ours broke off: what we report later is a consequence
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  int64_t next_alarm_ ABSL_GUARDED_BY(mu_) = 0;
};

// "rank 3", "ranks 1, 2, 5"; long lists are cut.
std::string NameRanks(const std::vector<int32_t>& ranks);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_FAILURE_BOARD_H_
