// FENCE: what a rank's three communicators share: the store, the Gloo groups, the board and its watcher. Private to
// core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_C10D_WORLD_H_
#define SHARDWRIGHT_CORE_COMM_C10D_WORLD_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/c10d_options.h"
#include "shardwright/core/comm/c10d_store.h"
#include "shardwright/core/comm/failure_board.h"
#include "shardwright/core/comm/rank_environment.h"
#include "shardwright/core/comm/sockets.h"

namespace shardwright {

struct GlooGroup {
  std::string name;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  ConnectionBreaker connections;
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
  GlooGroup& group(size_t index) { return groups_[index]; }

  // The others' calls in the group end, and this rank's.
  void Abandon(GlooGroup& group, const absl::Status& status);
  // Ends the group for all, since `broken` did not end well here; returns why, as the caller should hear it.
  // `await_gloo` returns once Gloo, its connections gone, touches none of the caller's memory.
  absl::Status Break(GlooGroup& group, const BrokenCall& broken, const std::function<void()>& await_gloo);

 private:
  absl::Status OpenStore();
  absl::Status EnterWorld();
  absl::Status AwaitAll(const std::string& what);
  absl::Status ConnectGroup(size_t index);
  absl::StatusOr<std::shared_ptr<::gloo::transport::Device>> MakeDevice() const;
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
  std::array<GlooGroup, 3> groups_;
  std::optional<C10dStore> watcher_store_;
  ConnectionBreaker watcher_connection_;
  std::thread watcher_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_C10D_WORLD_H_
