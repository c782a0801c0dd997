// nccl_transport.h in builds with --config=cuda.
#include "shardwright/core/comm/nccl_transport.h"

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/catch_exceptions.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d_store.h"
#include "shardwright/core/device/cuda_status.h"

namespace shardwright {
namespace {

constexpr char kIdKey[] = "nccl/id";

std::optional<ncclDataType_t> ReducibleType(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kBool:  // as bytes 0 and 1
      return op == ReduceOp::kSum ? std::nullopt : std::make_optional(ncclUint8);
    case DType::kUInt8:
      return ncclUint8;
    case DType::kInt8:
      return ncclInt8;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    default:
      return std::nullopt;
  }
}

ncclRedOp_t NcclOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
  }
  return ncclNumOps;
}

absl::Status NcclStatus(ncclResult_t result) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  // A system error is a network's that broke, as it does when a peer dies.
  const bool lost = result == ncclRemoteError || result == ncclSystemError;
  const auto code = lost ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat("NCCL: ", ncclGetErrorString(result), ": ", ncclGetLastError(nullptr)));
}

// Between two questions to the device. Short waits are the rule and go without sleep.
class Pause {
 public:
  void operator()() {
    if (++times_ < 200) return std::this_thread::yield();
    absl::SleepFor(absl::Microseconds(50));
  }

 private:
  int times_ = 0;
};

// NCCL's communicator. It never blocks: a call that has to wait for peers is under way until they come, and may be
// aborted meanwhile, from any thread. Thread-safe.
class NcclComm {
 public:
  ~NcclComm() { Abort(); }

  absl::Status Connect(const ncclUniqueId& id, const NcclOptions& options) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    {
      absl::MutexLock lock(&mu_);
      SW_RETURN_IF_ERROR(NcclStatus(ncclCommInitRankConfig(&comm_, options.size, id, options.rank, &config)));
    }
    return AwaitReady(options.timeout);
  }

  // Returns once what `calls` asks for is in its stream.
  absl::Status Issue(absl::FunctionRef<ncclResult_t(ncclComm_t)> calls, absl::Duration timeout) {
    {
      absl::MutexLock lock(&mu_);
      if (comm_ == nullptr) return Aborted();
      SW_RETURN_IF_ERROR(NcclStatus(ncclGroupStart()));
      const absl::Status called = NcclStatus(calls(comm_));
      const absl::Status ended = NcclStatus(ncclGroupEnd());
      SW_RETURN_IF_ERROR(called);
      SW_RETURN_IF_ERROR(ended);
    }
    return AwaitReady(timeout);
  }

  // An error that NCCL met since.
  absl::Status Check() {
    ncclResult_t state = ncclSuccess;
    return Ask(&state);
  }

  void Abort() {
    absl::MutexLock lock(&mu_);
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
  }

 private:
  static absl::Status Aborted() { return absl::UnavailableError("the group was broken off"); }

  absl::Status Ask(ncclResult_t* state) {
    absl::MutexLock lock(&mu_);
    if (comm_ == nullptr) return Aborted();
    SW_RETURN_IF_ERROR(NcclStatus(ncclCommGetAsyncError(comm_, state)));
    return NcclStatus(*state);
  }

  absl::Status AwaitReady(absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    for (Pause pause;; pause()) {
      ncclResult_t state = ncclSuccess;
      SW_RETURN_IF_ERROR(Ask(&state));
      if (state == ncclSuccess) return absl::OkStatus();
      if (absl::Now() >= deadline) {
        return absl::DeadlineExceededError(absl::StrCat("timed out after ", absl::FormatDuration(timeout)));
      }
    }
  }

  absl::Mutex mu_;
  ncclComm_t comm_ ABSL_GUARDED_BY(mu_) = nullptr;
};

// An event of the current device.
class Event {
 public:
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  absl::Status Create() {
    return CudaStatus(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event");
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// What works share with their transport, which they may outlive.
struct Channel {
  NcclComm comm;
  cudaStream_t stream = nullptr;  // of all transfers, one after the other

  ~Channel() {
    comm.Abort();
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
};

class NcclTransfer final : public Transfer {
 public:
  NcclTransfer(std::shared_ptr<Channel> channel, std::unique_ptr<Event> done)
      : channel_(std::move(channel)), done_(std::move(done)) {}

  std::optional<absl::Status> WaitUntil(absl::Time deadline) override {
    for (Pause pause;; pause()) {
      const cudaError_t state = cudaEventQuery(done_->get());
      if (state != cudaSuccess && state != cudaErrorNotReady) return CudaStatus(state, "waiting for NCCL");
      // Transfers of an aborted communicator end, too.
      const absl::Status status = channel_->comm.Check();
      if (!status.ok() || state == cudaSuccess) return status;
      if (absl::Now() >= deadline) return std::nullopt;
    }
  }

  void Settle() override {
    for (Pause pause; cudaStreamQuery(channel_->stream) == cudaErrorNotReady;) pause();
  }

 private:
  std::shared_ptr<Channel> channel_;
  std::unique_ptr<Event> done_;
};

class NcclTransport final : public Transport {
 public:
  explicit NcclTransport(const NcclOptions& options) : options_(options) {}
  ~NcclTransport() override { Break(); }

  absl::Status Connect(const ncclUniqueId& id) {
    const CudaDeviceGuard guard(options_.device_index);
    SW_RETURN_IF_ERROR(guard.status());
    SW_RETURN_IF_ERROR(ready_.Create());
    SW_RETURN_IF_ERROR(
        CudaStatus(cudaStreamCreateWithFlags(&channel_->stream, cudaStreamNonBlocking), "creating a stream"));
    return channel_->comm.Connect(id, options_);
  }

  const char* name() const override { return "NCCL"; }
  bool CanReduce(DType dtype, ReduceOp op) const override { return ReducibleType(dtype, op).has_value(); }

  absl::Status StartBroadcast(void* data, uint64_t bytes, int32_t root, Transfers* started) override {
    if (bytes == 0) return absl::OkStatus();
    return Start(started, [&](ncclComm_t comm) {
      return ncclBroadcast(data, data, bytes, ncclUint8, root, comm, channel_->stream);
    });
  }

  absl::Status StartAllReduce(void* data, int64_t count, DType dtype, ReduceOp op, Transfers* started) override {
    if (count == 0) return absl::OkStatus();
    return Start(started, [&](ncclComm_t comm) {
      return ncclAllReduce(data, data, count, *ReducibleType(dtype, op), NcclOp(op), comm, channel_->stream);
    });
  }

  // NCCL's own wants equal pieces. A group of broadcasts takes any.
  absl::Status StartAllGather(void* data, absl::Span<const uint64_t> bytes, Transfers* started) override {
    if (std::all_of(bytes.begin(), bytes.end(), [](uint64_t n) { return n == 0; })) return absl::OkStatus();
    char* const all = static_cast<char*>(data);
    return Start(started, [&](ncclComm_t comm) {
      if (std::equal(bytes.begin() + 1, bytes.end(), bytes.begin())) {
        return ncclAllGather(all + options_.rank * bytes[0], all, bytes[0], ncclUint8, comm, channel_->stream);
      }
      char* piece = all;
      for (int32_t owner = 0; owner < options_.size; piece += bytes[owner++]) {
        if (bytes[owner] == 0) continue;
        const ncclResult_t result = ncclBroadcast(piece, piece, bytes[owner], ncclUint8, owner, comm, channel_->stream);
        if (result != ncclSuccess && result != ncclInProgress) return result;
      }
      return ncclSuccess;
    });
  }

  // The same with reductions.
  absl::Status StartReduceScatter(void* data, absl::Span<const int64_t> counts, DType dtype, ReduceOp op,
                                  Transfers* started) override {
    if (std::all_of(counts.begin(), counts.end(), [](int64_t n) { return n == 0; })) return absl::OkStatus();
    char* const all = static_cast<char*>(data);
    const ncclDataType_t type = *ReducibleType(dtype, op);
    const int64_t item_bytes = ItemSize(dtype);
    return Start(started, [&](ncclComm_t comm) {
      if (std::equal(counts.begin() + 1, counts.end(), counts.begin())) {
        return ncclReduceScatter(all, all + options_.rank * counts[0] * item_bytes, counts[0], type, NcclOp(op), comm,
                                 channel_->stream);
      }
      char* piece = all;
      for (int32_t owner = 0; owner < options_.size; piece += counts[owner++] * item_bytes) {
        if (counts[owner] == 0) continue;
        const ncclResult_t result =
            ncclReduce(piece, piece, counts[owner], type, NcclOp(op), owner, comm, channel_->stream);
        if (result != ncclSuccess && result != ncclInProgress) return result;
      }
      return ncclSuccess;
    });
  }

  void Break() override { channel_->comm.Abort(); }

 private:
  // What `calls` asks for begins after all that the caller's stream has been given so far.
  absl::Status Start(Transfers* started, absl::FunctionRef<ncclResult_t(ncclComm_t)> calls) {
    const CudaDeviceGuard guard(options_.device_index);
    SW_RETURN_IF_ERROR(guard.status());
    SW_RETURN_IF_ERROR(FollowCaller());
    auto done = std::make_unique<Event>();
    SW_RETURN_IF_ERROR(done->Create());
    const absl::Status issued = channel_->comm.Issue(calls, options_.timeout);
    const absl::Status marked = CudaStatus(cudaEventRecord(done->get(), channel_->stream), "marking a transfer");
    started->push_back(std::make_unique<NcclTransfer>(channel_, std::move(done)));
    SW_RETURN_IF_ERROR(issued);
    return marked;
  }

  absl::Status FollowCaller() {
    const absl::StatusOr<cudaStream_t> caller =
        CatchExceptions([&] { return c10::cuda::getCurrentCUDAStream(options_.device_index).stream(); },
                        [] { return absl::InternalError(TextOfCurrentException()); });
    SW_RETURN_IF_ERROR(caller.status());
    SW_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(ready_.get(), *caller), "following the current stream"));
    return CudaStatus(cudaStreamWaitEvent(channel_->stream, ready_.get(), 0), "following the current stream");
  }

  const NcclOptions options_;
  Event ready_;  // the caller's stream has come to a transfer
  std::shared_ptr<Channel> channel_ = std::make_shared<Channel>();
};

// Rank 0's, on all ranks.
absl::StatusOr<ncclUniqueId> AgreeOnId(const NcclOptions& options, KeyValueStore& store) {
  ncclUniqueId id;
  if (options.rank == 0) {
    SW_RETURN_IF_ERROR(NcclStatus(ncclGetUniqueId(&id)));
    SW_RETURN_IF_ERROR(store.Set(kIdKey, absl::string_view(id.internal, sizeof(id.internal))));
    return id;
  }
  SW_ASSIGN_OR_RETURN(const bool there, store.WaitForAll({kIdKey}, options.timeout));
  if (!there) return absl::DeadlineExceededError("rank 0 did not say where to meet");
  SW_ASSIGN_OR_RETURN(const std::optional<std::string> text, store.Get(kIdKey));
  if (!text || text->size() != sizeof(id.internal)) return absl::InternalError("rank 0's NCCL is of another version");
  text->copy(id.internal, sizeof(id.internal));
  return id;
}

}  // namespace

absl::Status CheckNcclBuilt() {
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Transport>> ConnectNccl(const NcclOptions& options, KeyValueStore& store) {
  SW_ASSIGN_OR_RETURN(const ncclUniqueId id, AgreeOnId(options, store), _ << "NCCL on cuda:" << options.device_index);
  auto transport = std::make_unique<NcclTransport>(options);
  SW_RETURN_IF_ERROR(transport->Connect(id)) << "NCCL on cuda:" << options.device_index;
  return transport;
}

}  // namespace shardwright
