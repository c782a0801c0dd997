#include "shardwright/core/comm/c10d_communicator.h"

#include <ATen/core/ivalue_inl.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d_world.h"
#include "shardwright/core/comm/collective_call.h"

namespace shardwright {
namespace {

// A message up to this many bytes travels with its length, in one collective.
constexpr size_t kSlotBytes = 256;
constexpr size_t kInlineBytes = kSlotBytes - sizeof(uint64_t);
// Longer ones go in pieces, so that a length from a rank gone astray does not become one giant call.
constexpr uint64_t kPieceBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 40;
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
class GlooWork {
 public:
  explicit GlooWork(const c10::intrusive_ptr<c10d::Work>& work) : outcome_(std::make_shared<Outcome>()) {
    work->getFuture()->addCallback([outcome = outcome_](c10::ivalue::Future& future) {
      if (future.hasError()) outcome->status = StatusOfFuture(future);
      outcome->done.Notify();
    });
  }

  bool WaitUntil(absl::Time deadline) const { return outcome_->done.WaitForNotificationWithDeadline(deadline); }
  // Waits until Gloo touches no memory of ours any more.
  const absl::Status& Finish() const {
    outcome_->done.WaitForNotification();
    return outcome_->status;
  }

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

// One rank's side of a group; shared with works under way. Thread-safe.
class GroupState {
 public:
  GroupState(std::shared_ptr<C10dWorld> world, size_t group) : world_(std::move(world)), group_(world_->group(group)) {}

  int32_t rank() const { return world_->environment().rank; }
  int32_t size() const { return world_->environment().world_size; }
  c10d::ProcessGroupGloo& gloo() const { return *group_.gloo; }
  absl::Duration timeout() const { return world_->options().timeout; }

  // Counts a call, if it may be made.
  absl::Status Admit(const CollectiveCall& call, uint64_t message_bytes) {
    SW_RETURN_IF_ERROR(first_error());
    if (absl::Status invalid = CheckCall(call); !invalid.ok()) {
      Abandon(invalid);
      return invalid;
    }
    absl::MutexLock lock(&mu_);
    Count(call, message_bytes, &counters_);
    return absl::OkStatus();
  }

  // Starts works; what Gloo refuses at once is this rank's failure, and then none is under way.
  absl::Status Start(const CollectiveCall& call, const std::function<void(std::vector<GlooWork>&)>& start,
                     std::vector<GlooWork>* works) {
    try {
      start(*works);
      return absl::OkStatus();
    } catch (...) {
      const absl::Status failure = absl::InternalError(absl::StrCat(call.ToString(), ": ", TextOfCurrentException()));
      Abandon(failure);
      for (const GlooWork& work : *works) work.Finish().IgnoreError();
      return failure;
    }
  }

  absl::Status Await(const CollectiveCall& call, const std::vector<GlooWork>& works) {
    const absl::Time deadline = absl::Now() + timeout();
    absl::Status status;
    for (const GlooWork& work : works) {
      if (!status.ok()) break;
      status = work.WaitUntil(deadline)
                   ? work.Finish()
                   : absl::DeadlineExceededError(absl::StrCat("timed out after ", absl::FormatDuration(timeout())));
    }
    if (status.ok()) return status;
    return Fail(call, status, works);
  }

  void Abandon(const absl::Status& status) {
    if (Record(status)) world_->Abandon(group_, status);
  }

  CommCounters counters() const {
    absl::MutexLock lock(&mu_);
    return counters_;
  }

 private:
  absl::Status CheckCall(const CollectiveCall& call) const {
    SW_RETURN_IF_ERROR(Validate(call, size()));
    const bool reduces = call.collective == Collective::kAllReduce || call.collective == Collective::kReduceScatter;
    if (!reduces || ReducibleType(call.dtype, call.op)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(call.ToString(), ": Gloo does not reduce ", DTypeName(call.dtype)));
  }

  absl::Status first_error() const {
    absl::MutexLock lock(&mu_);
    return first_error_;
  }

  // True if this is the first error.
  bool Record(const absl::Status& status) {
    absl::MutexLock lock(&mu_);
    if (!first_error_.ok()) return false;
    first_error_ = status;
    return true;
  }

  // Finds out why. Returns only when Gloo is through with the caller's memory.
  absl::Status Fail(const CollectiveCall& call, const absl::Status& status, const std::vector<GlooWork>& works) {
    const auto await_gloo = [&] {
      for (const GlooWork& work : works) work.Finish().IgnoreError();
    };
    if (absl::Status first = first_error(); !first.ok()) {
      await_gloo();  // the connections are broken already, or about to be
      return first;
    }
    const absl::Status explained = world_->Break(group_, {group_.name, call.ToString(), status}, await_gloo);
    Record(explained);
    return explained;
  }

  const std::shared_ptr<C10dWorld> world_;
  GlooGroup& group_;
  mutable absl::Mutex mu_;
  absl::Status first_error_ ABSL_GUARDED_BY(mu_);
  CommCounters counters_ ABSL_GUARDED_BY(mu_);
};

class C10dWork final : public Work {
 public:
  C10dWork(std::shared_ptr<GroupState> state, CollectiveCall call, std::vector<GlooWork> works)
      : state_(std::move(state)), call_(std::move(call)), works_(std::move(works)) {}
  ~C10dWork() override { Wait().IgnoreError(); }

  absl::Status Wait() override {
    if (state_ == nullptr) return result_;
    result_ = state_->Await(call_, works_);
    state_.reset();
    return result_;
  }

 private:
  std::shared_ptr<GroupState> state_;  // null once waited for
  CollectiveCall call_;
  std::vector<GlooWork> works_;
  absl::Status result_;
};

class C10dCommunicator final : public Communicator {
 public:
  explicit C10dCommunicator(std::shared_ptr<GroupState> state) : state_(std::move(state)) {}

  int32_t rank() const override { return state_->rank(); }
  int32_t size() const override { return state_->size(); }

  absl::Status Barrier() override {
    const CollectiveCall call = {.collective = Collective::kBarrier};
    SW_RETURN_IF_ERROR(state_->Admit(call, 0));
    // An all-reduce of one number: it has a future, and no other work to wait for.
    uint8_t nothing = 0;
    return Run(call, [&](Works& works) { works.push_back(StartAllReduce(&nothing, 1, at::kByte, ReduceOp::kMax)); });
  }

  absl::Status Broadcast(void* data, int64_t count, DType dtype, int32_t root) override {
    const CollectiveCall call = {.collective = Collective::kBroadcast, .dtype = dtype, .root = root, .counts = {count}};
    SW_RETURN_IF_ERROR(state_->Admit(call, 0));
    return BroadcastRaw(call, data, call.TotalBytes(), root);
  }

  absl::StatusOr<std::unique_ptr<Work>> AllReduceAsync(void* data, int64_t count, DType dtype, ReduceOp op) override {
    CollectiveCall call = {.collective = Collective::kAllReduce, .dtype = dtype, .op = op, .counts = {count}};
    SW_RETURN_IF_ERROR(state_->Admit(call, 0));
    return StartAsync(std::move(call), [&](Works& works) {
      if (count > 0) works.push_back(StartAllReduce(data, count, *ReducibleType(dtype, op), op));
    });
  }

  absl::StatusOr<std::unique_ptr<Work>> AllGatherAsync(void* data, absl::Span<const int64_t> counts,
                                                       DType dtype) override;
  absl::StatusOr<std::unique_ptr<Work>> ReduceScatterAsync(void* data, absl::Span<const int64_t> counts, DType dtype,
                                                           ReduceOp op) override;
  absl::StatusOr<std::vector<std::string>> AllGatherBytes(absl::string_view message) override;
  absl::StatusOr<std::string> BroadcastBytes(absl::string_view message, int32_t root) override;

  void Abandon(const absl::Status& status) override {
    state_->Abandon(status.ok() ? absl::UnavailableError("left without an error") : status);
  }

  CommCounters counters() const override { return state_->counters(); }

 private:
  using Works = std::vector<GlooWork>;

  absl::Status Run(const CollectiveCall& call, const std::function<void(Works&)>& start) {
    Works works;
    SW_RETURN_IF_ERROR(state_->Start(call, start, &works));
    return state_->Await(call, works);
  }

  absl::StatusOr<std::unique_ptr<Work>> StartAsync(CollectiveCall call, const std::function<void(Works&)>& start) {
    Works works;
    SW_RETURN_IF_ERROR(state_->Start(call, start, &works));
    return std::make_unique<C10dWork>(state_, std::move(call), std::move(works));
  }

  GlooWork StartAllReduce(void* data, int64_t count, at::ScalarType type, ReduceOp op) {
    std::vector<at::Tensor> tensors = {Borrow(data, count, type)};
    c10d::AllreduceOptions options;
    options.reduceOp = C10dOp(op);
    return GlooWork(state_->gloo().allreduce(tensors, options));
  }

  GlooWork StartBroadcast(void* data, uint64_t bytes, int32_t root) {
    std::vector<at::Tensor> tensors = {BorrowBytes(data, bytes)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return GlooWork(state_->gloo().broadcast(tensors, options));
  }

  GlooWork StartReduce(void* data, int64_t count, at::ScalarType type, ReduceOp op, int32_t root) {
    std::vector<at::Tensor> tensors = {Borrow(data, count, type)};
    c10d::ReduceOptions options;
    options.reduceOp = C10dOp(op);
    options.rootRank = root;
    return GlooWork(state_->gloo().reduce(tensors, options));
  }

  absl::Status BroadcastRaw(const CollectiveCall& call, void* data, uint64_t bytes, int32_t root) {
    if (bytes == 0) return absl::OkStatus();
    return Run(call, [&](Works& works) { works.push_back(StartBroadcast(data, bytes, root)); });
  }

  // Every rank's `bytes` lie at its place in `all`.
  GlooWork StartGatherEqual(char* all, uint64_t bytes) {
    at::Tensor out = BorrowBytes(all, bytes * static_cast<uint64_t>(size()));
    at::Tensor in = BorrowBytes(all + bytes * static_cast<uint64_t>(rank()), bytes);
    return GlooWork(state_->gloo().all_gather_single(out, in));
  }

  // The owner's whole message, whose first bytes came in its slot; `mine` is this rank's.
  absl::StatusOr<std::string> Complete(const CollectiveCall& call, const char* slot, absl::string_view mine,
                                       int32_t owner);

  const std::shared_ptr<GroupState> state_;
};

// Gloo's own all-gather wants equal pieces; a broadcast per owner takes any, and is faster for large ones.
absl::StatusOr<std::unique_ptr<Work>> C10dCommunicator::AllGatherAsync(void* data, absl::Span<const int64_t> counts,
                                                                       DType dtype) {
  CollectiveCall call = {
      .collective = Collective::kAllGather, .dtype = dtype, .counts = {counts.begin(), counts.end()}};
  SW_RETURN_IF_ERROR(state_->Admit(call, 0));
  const int64_t item_bytes = ItemSize(dtype);
  const auto bytes_of = [&](int32_t owner) { return static_cast<uint64_t>(counts[owner] * item_bytes); };
  const bool equal = std::equal(counts.begin() + 1, counts.end(), counts.begin());
  const bool small = call.TotalBytes() > 0 && call.TotalBytes() <= kSmallGatherBytes;
  char* piece = static_cast<char*>(data);
  return StartAsync(std::move(call), [&](Works& works) {
    if (equal && small) return works.push_back(StartGatherEqual(piece, bytes_of(0)));
    for (int32_t owner = 0; owner < size(); ++owner) {
      if (counts[owner] > 0) works.push_back(StartBroadcast(piece, bytes_of(owner), owner));
      piece += bytes_of(owner);
    }
  });
}

// Gloo's own reduce-scatter is an all-reduce and a copy; a reduction per owner moves half of that. Gloo reduces in
// place on every rank, not only the owner: hence the undefined pieces.
absl::StatusOr<std::unique_ptr<Work>> C10dCommunicator::ReduceScatterAsync(void* data, absl::Span<const int64_t> counts,
                                                                           DType dtype, ReduceOp op) {
  CollectiveCall call = {
      .collective = Collective::kReduceScatter, .dtype = dtype, .op = op, .counts = {counts.begin(), counts.end()}};
  SW_RETURN_IF_ERROR(state_->Admit(call, 0));
  const at::ScalarType type = *ReducibleType(dtype, op);
  char* piece = static_cast<char*>(data);
  return StartAsync(std::move(call), [&](Works& works) {
    for (int32_t owner = 0; owner < size(); ++owner) {
      if (counts[owner] > 0) works.push_back(StartReduce(piece, counts[owner], type, op, owner));
      piece += counts[owner] * ItemSize(dtype);
    }
  });
}

// A slot: the length, then the first bytes.
void FillSlot(absl::string_view message, char* slot) {
  const uint64_t length = message.size();
  std::memcpy(slot, &length, sizeof(length));
  message.copy(slot + sizeof(length), kInlineBytes);
}

// A message of the slot's length with its first bytes in place. kInternal if that cannot be.
absl::StatusOr<std::string> OpenSlot(const char* slot) {
  uint64_t length;
  std::memcpy(&length, slot, sizeof(length));
  if (length > kMaxMessageBytes)
    return absl::InternalError(absl::StrCat("a message of ", length, " bytes was announced"));
  std::string message(length, '\0');
  std::memcpy(message.data(), slot + sizeof(length), std::min<size_t>(length, kInlineBytes));
  return message;
}

absl::StatusOr<std::string> C10dCommunicator::Complete(const CollectiveCall& call, const char* slot,
                                                       absl::string_view mine, int32_t owner) {
  absl::StatusOr<std::string> message = OpenSlot(slot);
  if (!message.ok()) {
    state_->Abandon(message.status());
    return message;
  }
  if (owner == rank()) message->assign(mine.data(), mine.size());
  for (uint64_t begin = kInlineBytes; begin < message->size(); begin += kPieceBytes) {
    const uint64_t bytes = std::min<uint64_t>(kPieceBytes, message->size() - begin);
    SW_RETURN_IF_ERROR(BroadcastRaw(call, message->data() + begin, bytes, owner));
  }
  return message;
}

absl::StatusOr<std::vector<std::string>> C10dCommunicator::AllGatherBytes(absl::string_view message) {
  const CollectiveCall call = {.collective = Collective::kAllGatherBytes};
  SW_RETURN_IF_ERROR(state_->Admit(call, message.size()));
  std::vector<char> slots(kSlotBytes * static_cast<size_t>(size()));
  FillSlot(message, slots.data() + kSlotBytes * static_cast<size_t>(rank()));
  SW_RETURN_IF_ERROR(Run(call, [&](Works& works) { works.push_back(StartGatherEqual(slots.data(), kSlotBytes)); }));
  std::vector<std::string> messages;
  for (int32_t owner = 0; owner < size(); ++owner) {
    SW_ASSIGN_OR_RETURN(std::string received,
                        Complete(call, slots.data() + kSlotBytes * static_cast<size_t>(owner), message, owner));
    messages.push_back(std::move(received));
  }
  return messages;
}

absl::StatusOr<std::string> C10dCommunicator::BroadcastBytes(absl::string_view message, int32_t root) {
  const CollectiveCall call = {.collective = Collective::kBroadcastBytes, .root = root};
  const bool is_root = rank() == root;
  SW_RETURN_IF_ERROR(state_->Admit(call, is_root ? message.size() : 0));
  char slot[kSlotBytes] = {};
  if (is_root) FillSlot(message, slot);
  SW_RETURN_IF_ERROR(BroadcastRaw(call, slot, kSlotBytes, root));
  return Complete(call, slot, message, root);
}

}  // namespace

absl::StatusOr<CommGroups> ConnectGloo(const RankEnvironment& environment, const C10dOptions& options) {
  SW_ASSIGN_OR_RETURN(const std::shared_ptr<C10dWorld> world, C10dWorld::Connect(environment, options));
  const auto communicator = [&](size_t group) {
    return std::make_unique<C10dCommunicator>(std::make_shared<GroupState>(world, group));
  };
  static_assert(C10dWorld::kGroupNames.size() == 3);
  return CommGroups{communicator(0), communicator(1), communicator(2)};
}

}  // namespace shardwright
