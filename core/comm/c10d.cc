#include "shardwright/core/comm/c10d.h"

#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d_communicator.h"
#include "shardwright/core/comm/c10d_store.h"
#include "shardwright/core/comm/nccl_transport.h"
#include "shardwright/core/comm/signal_mask.h"
#include "shardwright/core/comm/sockets.h"
#include "shardwright/core/comm/thread_communicator.h"

namespace shardwright {
namespace {

class TcpHostedStore final : public HostedStore {
 public:
  TcpHostedStore(c10::intrusive_ptr<c10d::Store> store, int32_t port) : store_(std::move(store)), port_(port) {}

  int32_t port() const override { return port_; }

  std::optional<int32_t> FirstFailedRank() override {
    const absl::StatusOr<std::optional<std::string>> text = store_.Get(kFirstFailedRankKey);
    int32_t rank;
    if (!text.ok() || !text->has_value() || !absl::SimpleAtoi(**text, &rank)) return std::nullopt;
    return rank;
  }

 private:
  C10dStore store_;
  const int32_t port_;
};

}  // namespace

absl::StatusOr<CommGroups> ConnectC10d(const RankEnvironment& environment, const C10dOptions& options) {
  if (options.data_device.is_cuda()) {
    SW_RETURN_IF_ERROR(CheckNcclBuilt()) << "connecting ranks on " << options.data_device.ToString();
  }
  if (environment.world_size == 1) return std::move(MakeThreadGroups(1, options.timeout)[0]);
  return ConnectC10dGroups(environment, options);
}

absl::StatusOr<std::unique_ptr<HostedStore>> HostStore(int32_t world_size) {
  SW_ASSIGN_OR_RETURN(const Listener listener, ListenOnLoopback(), _ << "hosting the store");
  const SignalsBlocked blocked;
  SW_ASSIGN_OR_RETURN(auto store,
                      OpenTcpStore({.host = "127.0.0.1",
                                    .port = listener.port,
                                    .serve = true,
                                    .listen_fd = listener.fd,
                                    .timeout = absl::Minutes(1)}),
                      _ << "hosting the store");
  return std::make_unique<TcpHostedStore>(std::move(store), listener.port);
}

}  // namespace shardwright
