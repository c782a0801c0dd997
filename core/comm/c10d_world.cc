#include "shardwright/core/comm/c10d_world.h"

#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/gloo_transport.h"
#include "shardwright/core/comm/nccl_transport.h"
#include "shardwright/core/comm/signal_mask.h"
#include "shardwright/core/comm/watchdog.h"

namespace shardwright {

C10dWorld::C10dWorld(const RankEnvironment& environment, const C10dOptions& options)
    : environment_(environment), options_(options), deadline_(absl::Now() + options.timeout) {
  for (size_t i = 0; i < groups_.size(); ++i) groups_[i].name = kGroupNames[i];
}

std::string C10dWorld::StoreName() const {
  const std::string server = !environment_.store_is_hosted       ? "rank 0"
                             : environment_.source == "launcher" ? "the launcher"
                                                                 : "torchrun's agent";
  return absl::StrCat("the store of ", server, " at ", environment_.master_address, ":", environment_.master_port);
}

absl::StatusOr<std::shared_ptr<C10dWorld>> C10dWorld::Connect(const RankEnvironment& environment,
                                                              const C10dOptions& options) {
  const SignalsBlocked blocked;
  // Gloo's groups connect to the store, too.
  std::optional<NoNameServers> no_name_servers;
  if (NeedsNoNameServer(environment.master_address)) no_name_servers.emplace();
  auto world = std::make_shared<C10dWorld>(environment, options);
  const auto connect = [&]() -> absl::Status {
    SW_RETURN_IF_ERROR(world->OpenStore()) << "reaching " << world->StoreName();
    SW_RETURN_IF_ERROR(world->EnterWorld());
    for (size_t i = 0; i < world->groups_.size(); ++i) SW_RETURN_IF_ERROR(world->ConnectGroup(i));
    return world->StartWatcher();
  };
  if (absl::Status status = connect(); !status.ok()) {
    world->broken_ = true;
    return Annotate(status, absl::StrCat("connecting rank ", environment.rank, " of ", environment.world_size));
  }
  return world;
}

absl::Status C10dWorld::OpenStore() {
  store_connection_.Note();
  SW_ASSIGN_OR_RETURN(auto store, OpenTcpStore({.host = environment_.master_address,
                                                .port = environment_.master_port,
                                                .serve = ServesStore(),
                                                .listen_fd = std::nullopt,
                                                .timeout = options_.timeout}));
  store_connection_.CaptureTo(environment_.master_port);
  root_store_.emplace(std::move(store));
  return absl::OkStatus();
}

// A store may serve several worlds one after the other: torchrun's restarts, and groups made again by one process.
// Every rank makes the same ones, so counting them by rank gives the same name everywhere.
absl::Status C10dWorld::EnterWorld() {
  const std::string attempt = absl::StrCat("shardwright/", environment_.attempt);
  SW_ASSIGN_OR_RETURN(const int64_t world,
                      root_store_->Increment(absl::StrCat(attempt, "/worlds/", environment_.rank)));
  prefix_ = absl::StrCat(attempt, "/", world);
  store_.emplace(root_store_->WithPrefix(prefix_));
  board_.emplace(*store_, StoreName(), environment_.rank, environment_.world_size, options_.grace);
  return AwaitAll("here");
}

absl::Status C10dWorld::AwaitAll(const std::string& what) {
  SW_RETURN_IF_ERROR(store_->Set(absl::StrCat(what, "/", environment_.rank), ""));
  SW_ASSIGN_OR_RETURN(const bool all, store_->WaitForAll(board_->KeysOfAll(what), deadline_ - absl::Now()));
  if (all) return absl::OkStatus();
  SW_ASSIGN_OR_RETURN(const std::vector<int32_t> missing, board_->Missing(what));
  return absl::DeadlineExceededError(
      absl::StrCat(NameRanks(missing), " did not come within ", absl::FormatDuration(options_.timeout)));
}

// One group after the other on all ranks: what is connected meanwhile belongs to this group.
absl::Status C10dWorld::ConnectGroup(size_t index) {
  C10dGroup& group = groups_[index];
  const auto connect = [&]() -> absl::Status {
    SW_RETURN_IF_ERROR(ConnectTransports(&group));
    return AwaitAll(absl::StrCat("connected/", group.name));
  };
  return Annotate(connect(), absl::StrCat("connecting the ", group.name, " group"));
}

// Our own deadline comes first; the transport's is the last resort of a call whose connections would not break.
absl::Status C10dWorld::ConnectTransports(C10dGroup* group) {
  auto host = ConnectGloo(environment_, store_->WithPrefix(absl::StrCat("gloo/", group->name)),
                          options_.timeout + options_.grace);
  if (absl::IsUnavailable(host.status()) && absl::Now() >= deadline_) {
    return absl::DeadlineExceededError(host.status().message());
  }
  SW_ASSIGN_OR_RETURN(group->host, std::move(host));
  if (group->name != kGroupNames[0] || !options_.data_device.is_cuda()) return absl::OkStatus();
  SW_ASSIGN_OR_RETURN(group->device, ConnectNccl({.rank = environment_.rank,
                                                  .size = environment_.world_size,
                                                  .device_index = options_.data_device.index,
                                                  .timeout = options_.timeout},
                                                 *store_));
  return absl::OkStatus();
}

absl::Status C10dWorld::StartWatcher() {
  watcher_connection_.Note();
  SW_ASSIGN_OR_RETURN(auto store, OpenTcpStore({.host = environment_.master_address,
                                                .port = environment_.master_port,
                                                .serve = false,
                                                .listen_fd = std::nullopt,
                                                .timeout = options_.timeout}));
  watcher_connection_.CaptureTo(environment_.master_port);
  watcher_store_.emplace(C10dStore(std::move(store)).WithPrefix(prefix_));
  watcher_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

// Until told to stop, or the store is gone: then connections that break are all that one hears of.
void C10dWorld::Watch() {
  for (int64_t k = 0;; ++k) {
    const absl::StatusOr<std::optional<std::string>> name = board_->AwaitAlarm(*watcher_store_, k);
    if (!name.ok() || !name->has_value()) return;
    for (const C10dGroup& group : groups_) {
      if (group.name == **name) group.Break();
    }
  }
}

void C10dWorld::Abandon(C10dGroup& group, const absl::Status& status) {
  broken_ = true;
  {
    // A store that has stopped to answer must not hold up a rank that leaves.
    Watchdog watchdog(options_.grace, [&] { store_connection_.Break(); });
    if (board_->PostFailure(group.name, status)) {
      root_store_->SetIfAbsent(kFirstFailedRankKey, absl::StrCat(environment_.rank)).IgnoreError();
    }
  }
  group.Break();
}

absl::Status C10dWorld::Break(C10dGroup& group, const BrokenCall& broken, const std::function<void()>& settle) {
  broken_ = true;
  Watchdog watchdog(2 * options_.grace, [&] { store_connection_.Break(); });
  board_->PostBroken(broken);
  group.Break();
  settle();
  return board_->Explain(broken);
}

// All have ended their last collective before anyone closes a connection, and the server goes last.
void C10dWorld::Leave() {
  if (!store_->Set(absl::StrCat("left/", environment_.rank), "").ok()) return;
  if (broken_ && !ServesStore()) return;
  const absl::StatusOr<bool> all = store_->WaitForAll(board_->KeysOfAll("left"), options_.grace);
  if (!all.ok() || !*all || broken_) return;
  if (!store_->Set(absl::StrCat("gone/", environment_.rank), "").ok() || !ServesStore()) return;
  store_->WaitForAll(board_->KeysOfAll("gone"), options_.grace).status().IgnoreError();
}

C10dWorld::~C10dWorld() {
  if (!board_) return;
  {
    Watchdog watchdog(3 * options_.grace, [&] { store_connection_.Break(); });
    Leave();
    if (watcher_.joinable() && !board_->StopWatching().ok()) watcher_connection_.Break();
  }
  if (watcher_.joinable()) watcher_.join();
}

}  // namespace shardwright
