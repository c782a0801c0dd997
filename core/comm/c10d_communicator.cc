#include "shardwright/core/comm/c10d_communicator.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d_world.h"
#include "shardwright/core/comm/collective_call.h"
#include "shardwright/core/comm/transport.h"

namespace shardwright {
namespace {

// A message up to this many bytes travels with its length, in one collective.
constexpr size_t kSlotBytes = 256;
constexpr size_t kInlineBytes = kSlotBytes - sizeof(uint64_t);
// Longer ones go in pieces, so that a length from a rank gone astray does not become one giant call.
constexpr uint64_t kPieceBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 40;

using StartFunction = std::function<absl::Status(Transfers* started)>;

// One rank's side of a group; shared with works under way. Thread-safe.
class GroupState {
 public:
  GroupState(std::shared_ptr<C10dWorld> world, size_t group) : world_(std::move(world)), group_(world_->group(group)) {}

  int32_t rank() const { return world_->environment().rank; }
  int32_t size() const { return world_->environment().world_size; }
  Transport& tensors() const { return group_.tensors(); }
  Transport& host() const { return *group_.host; }
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

  // Starts transfers; after an error none is under way.
  absl::Status Start(const CollectiveCall& call, const StartFunction& start, Transfers* transfers) {
    const absl::Status status = start(transfers);
    return status.ok() ? status : Fail(call, status, *transfers);
  }

  absl::Status Await(const CollectiveCall& call, const Transfers& transfers) {
    const absl::Time deadline = absl::Now() + timeout();
    absl::Status status;
    for (const auto& transfer : transfers) {
      status = transfer->WaitUntil(deadline).value_or(
          absl::DeadlineExceededError(absl::StrCat("timed out after ", absl::FormatDuration(timeout()))));
      if (!status.ok()) return Fail(call, status, transfers);
    }
    return status;
  }

  void Abandon(const absl::Status& status) {
    if (Record(status)) world_->Abandon(group_, status);
  }

  CommCounters counters() const {
    absl::MutexLock lock(&mu_);
    return counters_;
  }

 private:
  static void SettleAll(const Transfers& transfers) {
    for (const auto& transfer : transfers) transfer->Settle();
  }

  absl::Status CheckCall(const CollectiveCall& call) const {
    SW_RETURN_IF_ERROR(Validate(call, size()));
    const bool reduces = call.collective == Collective::kAllReduce || call.collective == Collective::kReduceScatter;
    if (!reduces || tensors().CanReduce(call.dtype, call.op)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(call.ToString(), ": ", tensors().name(), " does not reduce ", DTypeName(call.dtype)));
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

  // Finds out why. Returns only when the transfers are through with the caller's memory.
  absl::Status Fail(const CollectiveCall& call, const absl::Status& status, const Transfers& transfers) {
    if (absl::Status first = first_error(); !first.ok()) {
      SettleAll(transfers);  // the group is broken already, or about to be
      return first;
    }
    if (absl::IsInternal(status)) {  // this rank's own
      const absl::Status failure = Annotate(status, call.ToString());
      Abandon(failure);
      SettleAll(transfers);
      return failure;
    }
    const absl::Status explained =
        world_->Break(group_, {group_.name, call.ToString(), status}, [&] { SettleAll(transfers); });
    Record(explained);
    return explained;
  }

  const std::shared_ptr<C10dWorld> world_;
  C10dGroup& group_;
  mutable absl::Mutex mu_;
  absl::Status first_error_ ABSL_GUARDED_BY(mu_);
  CommCounters counters_ ABSL_GUARDED_BY(mu_);
};

class C10dWork final : public Work {
 public:
  C10dWork(std::shared_ptr<GroupState> state, CollectiveCall call, Transfers transfers)
      : state_(std::move(state)), call_(std::move(call)), transfers_(std::move(transfers)) {}
  ~C10dWork() override { Wait().IgnoreError(); }

  absl::Status Wait() override {
    if (state_ == nullptr) return result_;
    result_ = state_->Await(call_, transfers_);
    transfers_.clear();
    state_.reset();
    return result_;
  }

 private:
  std::shared_ptr<GroupState> state_;  // null once waited for
  CollectiveCall call_;
  Transfers transfers_;
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
    return Run(call, [&](Transfers* started) {
      return state_->host().StartAllReduce(&nothing, 1, DType::kUInt8, ReduceOp::kMax, started);
    });
  }

  absl::Status Broadcast(void* data, int64_t count, DType dtype, int32_t root) override {
    const CollectiveCall call = {.collective = Collective::kBroadcast, .dtype = dtype, .root = root, .counts = {count}};
    SW_RETURN_IF_ERROR(state_->Admit(call, 0));
    return Run(call, [&](Transfers* started) {
      return state_->tensors().StartBroadcast(data, call.TotalBytes(), root, started);
    });
  }

  absl::StatusOr<std::unique_ptr<Work>> AllReduceAsync(void* data, int64_t count, DType dtype, ReduceOp op) override {
    CollectiveCall call = {.collective = Collective::kAllReduce, .dtype = dtype, .op = op, .counts = {count}};
    return RunAsync(std::move(call), [&](Transfers* started) {
      return state_->tensors().StartAllReduce(data, count, dtype, op, started);
    });
  }

  absl::StatusOr<std::unique_ptr<Work>> AllGatherAsync(void* data, absl::Span<const int64_t> counts,
                                                       DType dtype) override {
    CollectiveCall call = {
        .collective = Collective::kAllGather, .dtype = dtype, .counts = {counts.begin(), counts.end()}};
    return RunAsync(std::move(call), [&](Transfers* started) {
      std::vector<uint64_t> bytes;
      for (int64_t count : counts) bytes.push_back(static_cast<uint64_t>(count * ItemSize(dtype)));
      return state_->tensors().StartAllGather(data, bytes, started);
    });
  }

  absl::StatusOr<std::unique_ptr<Work>> ReduceScatterAsync(void* data, absl::Span<const int64_t> counts, DType dtype,
                                                           ReduceOp op) override {
    CollectiveCall call = {
        .collective = Collective::kReduceScatter, .dtype = dtype, .op = op, .counts = {counts.begin(), counts.end()}};
    return RunAsync(std::move(call), [&](Transfers* started) {
      return state_->tensors().StartReduceScatter(data, counts, dtype, op, started);
    });
  }

  absl::StatusOr<std::vector<std::string>> AllGatherBytes(absl::string_view message) override;
  absl::StatusOr<std::string> BroadcastBytes(absl::string_view message, int32_t root) override;

  void Abandon(const absl::Status& status) override {
    state_->Abandon(status.ok() ? absl::UnavailableError("left without an error") : status);
  }

  CommCounters counters() const override { return state_->counters(); }

 private:
  absl::Status Run(const CollectiveCall& call, const StartFunction& start) {
    Transfers transfers;
    SW_RETURN_IF_ERROR(state_->Start(call, start, &transfers));
    return state_->Await(call, transfers);
  }

  // Admits the call, too.
  absl::StatusOr<std::unique_ptr<Work>> RunAsync(CollectiveCall call, const StartFunction& start) {
    SW_RETURN_IF_ERROR(state_->Admit(call, 0));
    Transfers transfers;
    SW_RETURN_IF_ERROR(state_->Start(call, start, &transfers));
    return std::make_unique<C10dWork>(state_, std::move(call), std::move(transfers));
  }

  absl::Status BroadcastMessage(const CollectiveCall& call, char* data, uint64_t bytes, int32_t root) {
    return Run(call, [&](Transfers* started) { return state_->host().StartBroadcast(data, bytes, root, started); });
  }

  // The owner's whole message, whose first bytes came in its slot; `mine` is this rank's.
  absl::StatusOr<std::string> Complete(const CollectiveCall& call, const char* slot, absl::string_view mine,
                                       int32_t owner);

  const std::shared_ptr<GroupState> state_;
};

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
    SW_RETURN_IF_ERROR(BroadcastMessage(call, message->data() + begin, bytes, owner));
  }
  return message;
}

absl::StatusOr<std::vector<std::string>> C10dCommunicator::AllGatherBytes(absl::string_view message) {
  const CollectiveCall call = {.collective = Collective::kAllGatherBytes};
  SW_RETURN_IF_ERROR(state_->Admit(call, message.size()));
  std::vector<char> slots(kSlotBytes * static_cast<size_t>(size()));
  FillSlot(message, slots.data() + kSlotBytes * static_cast<size_t>(rank()));
  SW_RETURN_IF_ERROR(Run(call, [&](Transfers* started) {
    const std::vector<uint64_t> bytes(size(), kSlotBytes);
    return state_->host().StartAllGather(slots.data(), bytes, started);
  }));
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
  SW_RETURN_IF_ERROR(BroadcastMessage(call, slot, kSlotBytes, root));
  return Complete(call, slot, message, root);
}

}  // namespace

absl::StatusOr<CommGroups> ConnectC10dGroups(const RankEnvironment& environment, const C10dOptions& options) {
  SW_ASSIGN_OR_RETURN(const std::shared_ptr<C10dWorld> world, C10dWorld::Connect(environment, options));
  const auto communicator = [&](size_t group) {
    return std::make_unique<C10dCommunicator>(std::make_shared<GroupState>(world, group));
  };
  static_assert(C10dWorld::kGroupNames.size() == 3);
  return CommGroups{communicator(0), communicator(1), communicator(2)};
}

}  // namespace shardwright
