#include "shardwright/core/comm/gloo_transport.h"

#include <ATen/core/ivalue_inl.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "shardwright/core/base/catch_exceptions.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/sockets.h"

namespace shardwright {
namespace {

// Equal shares up to this size are gathered in one collective; above, broadcasts are faster (they were measured).
constexpr uint64_t kSmallGatherBytes = 64 << 10;

std::optional<at::ScalarType> ReducibleType(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kBool:  // as bytes 0 and 1
      return op == ReduceOp::kSum ? std::nullopt : std::make_optional(at::kByte);
    case DType::kUInt8:
      return at::kByte;
    case DType::kInt8:
      return at::kChar;
    case DType::kInt32:
      return at::kInt;
    case DType::kInt64:
      return at::kLong;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
    default:
      return std::nullopt;
  }
}

c10d::ReduceOp C10dOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    case ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
  }
  return c10d::ReduceOp::UNUSED;
}

at::Tensor Borrow(void* data, int64_t count, at::ScalarType type) {
  return at::from_blob(data, {count}, at::TensorOptions().dtype(type));
}
at::Tensor BorrowBytes(void* data, uint64_t bytes) {
  return Borrow(data, static_cast<int64_t>(bytes), at::kByte);
}

// What Gloo's error means to our callers.
absl::Status StatusOfGlooError(const std::string& text) {
  for (const char* lost : {"Connection closed by peer", "Connection reset", "Broken pipe", "Socket closed"}) {
    if (absl::StrContains(text, lost)) return absl::UnavailableError("lost the connection to a peer");
  }
  if (absl::StrContains(text, "Timed out")) return absl::DeadlineExceededError(text);
  return absl::UnavailableError(text);
}

// One c10d work; its completion can be waited for with a deadline (Work::wait with one would give the work up).
class GlooTransfer final : public Transfer {
 public:
  explicit GlooTransfer(const c10::intrusive_ptr<c10d::Work>& work) : outcome_(std::make_shared<Outcome>()) {
    work->getFuture()->addCallback([outcome = outcome_](c10::ivalue::Future& future) {
      if (future.hasError()) outcome->status = StatusOfFuture(future);
      outcome->done.Notify();
    });
  }

  std::optional<absl::Status> WaitUntil(absl::Time deadline) override {
    if (!outcome_->done.WaitForNotificationWithDeadline(deadline)) return std::nullopt;
    return outcome_->status;
  }

  void Settle() override { outcome_->done.WaitForNotification(); }

 private:
  struct Outcome {
    absl::Notification done;
    absl::Status status;
  };

  static absl::Status StatusOfFuture(const c10::ivalue::Future& future) {
    try {
      std::rethrow_exception(future.exception_ptr());
    } catch (...) {
      return StatusOfGlooError(TextOfCurrentException());
    }
  }

  std::shared_ptr<Outcome> outcome_;
};

class GlooTransport final : public Transport {
 public:
  // Connects.
  GlooTransport(const RankEnvironment& environment, const C10dStore& store,
                const c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>& options)
      : rank_(environment.rank), size_(environment.world_size) {
    connections_.Note();
    gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store.store(), rank_, size_, options);
    connections_.CaptureAllBut(environment.master_port);
  }

  const char* name() const override { return "Gloo"; }
  bool CanReduce(DType dtype, ReduceOp op) const override { return ReducibleType(dtype, op).has_value(); }

  absl::Status StartBroadcast(void* data, uint64_t bytes, int32_t root, Transfers* started) override {
    return Begin([&] {
      if (bytes > 0) Add(started, Broadcast(data, bytes, root));
    });
  }

  absl::Status StartAllReduce(void* data, int64_t count, DType dtype, ReduceOp op, Transfers* started) override {
    return Begin([&] {
      if (count == 0) return;
      std::vector<at::Tensor> tensors = {Borrow(data, count, *ReducibleType(dtype, op))};
      c10d::AllreduceOptions options;
      options.reduceOp = C10dOp(op);
      Add(started, gloo_->allreduce(tensors, options));
    });
  }

  // Gloo's own all-gather wants equal pieces; a broadcast per owner takes any, and is faster for large ones.
  absl::Status StartAllGather(void* data, absl::Span<const uint64_t> bytes, Transfers* started) override {
    const bool equal = std::equal(bytes.begin() + 1, bytes.end(), bytes.begin());
    if (equal && bytes[0] > 0 && bytes[0] * bytes.size() <= kSmallGatherBytes) {
      return Begin([&] { Add(started, GatherEqual(static_cast<char*>(data), bytes[0])); });
    }
    return Begin([&] {
      char* piece = static_cast<char*>(data);
      for (int32_t owner = 0; owner < size_; ++owner) {
        if (bytes[owner] > 0) Add(started, Broadcast(piece, bytes[owner], owner));
        piece += bytes[owner];
      }
    });
  }

  // Gloo's own reduce-scatter is an all-reduce and a copy; a reduction per owner moves half of that. Gloo reduces in
  // place on every rank, not only the owner: hence the undefined pieces.
  absl::Status StartReduceScatter(void* data, absl::Span<const int64_t> counts, DType dtype, ReduceOp op,
                                  Transfers* started) override {
    return Begin([&] {
      char* piece = static_cast<char*>(data);
      for (int32_t owner = 0; owner < size_; ++owner) {
        if (counts[owner] > 0) Add(started, Reduce(piece, counts[owner], dtype, op, owner));
        piece += counts[owner] * ItemSize(dtype);
      }
    });
  }

  void Break() override { connections_.Break(); }

 private:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  template <typename Fn>
  static absl::Status Begin(Fn&& begin) {
    return CatchExceptions(std::forward<Fn>(begin), [] { return absl::InternalError(TextOfCurrentException()); });
  }

  static void Add(Transfers* started, const WorkPointer& work) {
    started->push_back(std::make_unique<GlooTransfer>(work));
  }

  WorkPointer Broadcast(void* data, uint64_t bytes, int32_t root) {
    std::vector<at::Tensor> tensors = {BorrowBytes(data, bytes)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return gloo_->broadcast(tensors, options);
  }

  WorkPointer Reduce(void* data, int64_t count, DType dtype, ReduceOp op, int32_t root) {
    std::vector<at::Tensor> tensors = {Borrow(data, count, *ReducibleType(dtype, op))};
    c10d::ReduceOptions options;
    options.reduceOp = C10dOp(op);
    options.rootRank = root;
    return gloo_->reduce(tensors, options);
  }

  // Every rank's `bytes` lie at its place in `all`.
  WorkPointer GatherEqual(char* all, uint64_t bytes) {
    at::Tensor out = BorrowBytes(all, bytes * static_cast<uint64_t>(size_));
    at::Tensor in = BorrowBytes(all + bytes * static_cast<uint64_t>(rank_), bytes);
    return gloo_->all_gather_single(out, in);
  }

  const int32_t rank_;
  const int32_t size_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  ConnectionBreaker connections_;
};

absl::StatusOr<std::shared_ptr<::gloo::transport::Device>> MakeDevice(const RankEnvironment& environment) {
  if (const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME"); interfaces != nullptr && *interfaces != '\0') {
    const std::vector<std::string> names = absl::StrSplit(interfaces, ',');
    return c10d::ProcessGroupGloo::createDeviceForInterface(names[0]);
  }
  if (IsLoopback(environment.master_address)) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  SW_ASSIGN_OR_RETURN(std::string address, LocalAddressTowards(environment.master_address, environment.master_port));
  // Hosts that have their own name for a loopback address would tell other hosts to call themselves.
  if (IsLoopback(address) && environment.local_world_size < environment.world_size) {
    SW_ASSIGN_OR_RETURN(address, FirstExternalAddress());
  }
  return c10d::ProcessGroupGloo::createDeviceForHostname(address);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> ConnectGloo(const RankEnvironment& environment, const C10dStore& store,
                                                       absl::Duration timeout) {
  const auto connect = [&]() -> absl::StatusOr<std::unique_ptr<Transport>> {
    auto options = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(timeout));
    SW_ASSIGN_OR_RETURN(auto device, MakeDevice(environment));
    options->devices.push_back(std::move(device));
    return std::make_unique<GlooTransport>(environment, store, options);
  };
  return CatchExceptions(connect, [] { return absl::UnavailableError(TextOfCurrentException()); });
}

}  // namespace shardwright
