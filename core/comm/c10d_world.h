// FENCE: what a rank's three communicators share: the store, the groups' transports, the board and its watcher. Private
// to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_C10D_WORLD_H_
#define SHARDWRIGHT_CORE_COMM_C10D_WORLD_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/c10d_options.h"
#include "shardwright/core/comm/c10d_store.h"
#include "shardwright/core/comm/failure_board.h"
#include "shardwright/core/comm/rank_environment.h"
#include "shardwright/core/comm/sockets.h"
#include "shardwright/core/comm/transport.h"

namespace shardwright {

struct C10dGroup {
  std::string name;
  std::unique_ptr<Transport> host;    // Gloo: messages, and tensors in host memory
  std::unique_ptr<Transport> device;  // NCCL: tensors on a GPU; null where the group has none

  Transport& tensors() const { return device != nullptr ? *device : *host; }
  void Break() const {
    host->Break();
    if (device != nullptr) device->Break();
  }
};

// Thread-safe but for Connect. Owned by the communicators together; the last one out leaves the world.
class C10dWorld {
 public:
  static absl::StatusOr<std::shared_ptr<C10dWorld>> Connect(const RankEnvironment& environment,
                                                            const C10dOptions& options);
  C10dWorld(const RankEnvironment& environment, const C10dOptions& options);
  // Waits for the others to leave, too, at most for the grace period; not at all once a call failed, unless this rank
  // serves the store that the others need to learn why.
  ~C10dWorld();
  C10dWorld(const C10dWorld&) = delete;
  C10dWorld& operator=(const C10dWorld&) = delete;

  const RankEnvironment& environment() const { return environment_; }
  const C10dOptions& options() const { return options_; }
  static constexpr std::array<const char*, 3> kGroupNames = {"data", "control", "checkpoint"};
  C10dGroup& group(size_t index) { return groups_[index]; }

  // The others' calls in the group end, and this rank's.
  void Abandon(C10dGroup& group, const absl::Status& status);
  // Ends the group for all, since `broken` did not end well here; returns why, as the caller should hear it.
  // `settle` returns once the transports, broken, touch none of the caller's memory.
  absl::Status Break(C10dGroup& group, const BrokenCall& broken, const std::function<void()>& settle);

 private:
  absl::Status OpenStore();
  absl::Status EnterWorld();
  absl::Status AwaitAll(const std::string& what);
  absl::Status ConnectGroup(size_t index);
  absl::Status ConnectTransports(C10dGroup* group);
  absl::Status StartWatcher();
  void Watch();
  void Leave();
  bool ServesStore() const { return environment_.rank == 0 && !environment_.store_is_hosted; }
  std::string StoreName() const;

  const RankEnvironment environment_;
  const C10dOptions options_;
  const absl::Time deadline_;  // of connecting
  std::atomic<bool> broken_ = false;

  std::string prefix_;  // this world's, in the store
  std::optional<C10dStore> root_store_;
  ConnectionBreaker store_connection_;
  std::optional<C10dStore> store_;  // under this world's prefix
  std::optional<FailureBoard> board_;
  std::array<C10dGroup, 3> groups_;
  std::optional<C10dStore> watcher_store_;
  ConnectionBreaker watcher_connection_;
  std::thread watcher_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_C10D_WORLD_H_
