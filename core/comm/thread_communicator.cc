#include "shardwright/core/comm/thread_communicator.h"

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/collective_call.h"
#include "shardwright/core/comm/reduce.h"

namespace shardwright {
namespace {

// What one rank brings to a meeting; borrowed until the meeting is over for it.
struct Part {
  bool here = false;
  void* data = nullptr;
  std::string message = {};
};

// One collective of all ranks.
struct Meeting {
  CollectiveCall call;  // of the first to come
  int32_t first_rank = 0;
  int32_t arrived = 0;
  bool done = false;
  std::vector<Part> parts;
  std::vector<std::string> messages;  // of all ranks, for those that ask for them
};

// Where rank's piece, or all data of a collective without pieces, lies in the memory that `part` brought.
char* PieceOf(const Meeting& meeting, const Part& part, size_t rank) {
  const int64_t offset = meeting.call.OffsetOf(static_cast<int32_t>(rank)) * ItemSize(meeting.call.dtype);
  return static_cast<char*>(part.data) + offset;
}

// From the memory of `source` to that of all others.
void Spread(const Meeting& meeting, size_t source, size_t piece) {
  const uint64_t bytes = static_cast<uint64_t>(meeting.call.counts[piece] * ItemSize(meeting.call.dtype));
  const char* from = PieceOf(meeting, meeting.parts[source], piece);
  for (const Part& part : meeting.parts) {
    char* to = PieceOf(meeting, part, piece);
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }
}

// Reduces a piece over all ranks into the memory of `owner`; aside first, since that is an input, too.
void ReducePiece(const Meeting& meeting, size_t piece, size_t owner) {
  const int64_t count = meeting.call.counts[piece];
  if (count == 0 || meeting.parts.size() == 1) return;
  std::vector<const void*> inputs;
  for (const Part& part : meeting.parts) inputs.push_back(PieceOf(meeting, part, piece));
  const size_t bytes = static_cast<size_t>(count * ItemSize(meeting.call.dtype));
  const auto result = std::make_unique_for_overwrite<char[]>(bytes);
  Reduce(meeting.call.dtype, meeting.call.op, inputs, count, result.get());
  std::memcpy(PieceOf(meeting, meeting.parts[owner], piece), result.get(), bytes);
}

void Compute(Meeting& meeting) {
  switch (meeting.call.collective) {
    case Collective::kBarrier:
      return;
    case Collective::kBroadcast:
      return Spread(meeting, meeting.call.root, 0);
    case Collective::kAllReduce:
      ReducePiece(meeting, 0, 0);
      return Spread(meeting, 0, 0);
    case Collective::kReduceScatter:
      for (size_t rank = 0; rank < meeting.parts.size(); ++rank) ReducePiece(meeting, rank, rank);
      return;
    case Collective::kAllGather:
      for (size_t rank = 0; rank < meeting.parts.size(); ++rank) Spread(meeting, rank, rank);
      return;
    case Collective::kAllGatherBytes:
    case Collective::kBroadcastBytes:
      for (Part& part : meeting.parts) meeting.messages.push_back(std::move(part.message));
      return;
  }
}

// The first failure that any rank told any group: a rank that ends because of it hands it on rather than its own end.
class RootCause {
 public:
  absl::Status FirstOr(const absl::Status& failure) {
    absl::MutexLock lock(&mu_);
    if (first_.ok()) first_ = failure;
    return first_;
  }

 private:
  absl::Mutex mu_;
  absl::Status first_ ABSL_GUARDED_BY(mu_);
};

// What the ranks of a communicator share. Thread-safe.
class Group {
 public:
  Group(int32_t size, std::shared_ptr<RootCause> root_cause)
      : size_(size), root_cause_(std::move(root_cause)), joined_(size, 0), left_(size, false) {}

  int32_t size() const { return size_; }

  // Brings `part` to rank's next meeting and returns that without waiting.
  absl::StatusOr<std::shared_ptr<Meeting>> Join(int32_t rank, const CollectiveCall& call, Part part) {
    absl::MutexLock lock(&mu_);
    SW_RETURN_IF_ERROR(broken_);
    std::shared_ptr<Meeting> meeting = NextMeeting(rank, call);
    if (meeting->call != call) {
      Break(absl::FailedPreconditionError(absl::StrCat("ranks are in different collectives: rank ", meeting->first_rank,
                                                       " called ", meeting->call.ToString(), ", rank ", rank,
                                                       " called ", call.ToString())));
      return broken_;
    }
    part.here = true;
    meeting->parts[rank] = std::move(part);
    if (++meeting->arrived == size_) {
      Compute(*meeting);
      meeting->done = true;
      RemoveFinished();
    }
    return meeting;
  }

  // Until the result is there. After an error nobody touches the part's memory any more.
  absl::Status Await(const Meeting& meeting, absl::Duration timeout) {
    absl::MutexLock lock(&mu_);
    const auto over = [&] {
      mu_.AssertHeld();
      return meeting.done || !broken_.ok() || !Missing(meeting, /*left=*/true).empty();
    };
    const bool in_time = mu_.AwaitWithTimeout(absl::Condition(&over), timeout);
    if (meeting.done) return absl::OkStatus();
    if (!in_time) {
      Break(absl::DeadlineExceededError(absl::StrCat(meeting.call.ToString(), ": ", Ranks(Missing(meeting, false)),
                                                     " did not answer within ", absl::FormatDuration(timeout))));
    }
    Break(absl::UnavailableError(absl::StrCat(meeting.call.ToString(), ": ", Ranks(Missing(meeting, true)), " left")));
    return broken_;
  }

  // The first reason stays.
  void Fail(const absl::Status& reason) {
    const absl::Status cause = root_cause_->FirstOr(reason);
    absl::MutexLock lock(&mu_);
    Break(cause);
  }

  // `rank` takes part in no further meeting.
  void Leave(int32_t rank) {
    absl::MutexLock lock(&mu_);
    left_[rank] = true;
  }

 private:
  std::shared_ptr<Meeting> NextMeeting(int32_t rank, const CollectiveCall& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const uint64_t index = joined_[rank]++ - finished_;
    if (index == meetings_.size()) {
      auto meeting = std::make_shared<Meeting>();
      meeting->call = call;
      meeting->first_rank = rank;
      meeting->parts.resize(size_);
      meetings_.push_back(std::move(meeting));
    }
    return meetings_[index];
  }

  // Meetings finish in order, as each rank joins them in order.
  void RemoveFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (!meetings_.empty() && meetings_.front()->done) {
      meetings_.pop_front();
      ++finished_;
    }
  }

  void Break(const absl::Status& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (broken_.ok()) broken_ = reason;
  }

  // Those who have not come; `left`: and never will.
  std::vector<int32_t> Missing(const Meeting& meeting, bool left) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    std::vector<int32_t> missing;
    for (int32_t rank = 0; rank < size_; ++rank) {
      if (!meeting.parts[rank].here && (!left || left_[rank])) missing.push_back(rank);
    }
    return missing;
  }

  static std::string Ranks(const std::vector<int32_t>& ranks) {
    return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
  }

  const int32_t size_;
  const std::shared_ptr<RootCause> root_cause_;
  absl::Mutex mu_;
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> joined_ ABSL_GUARDED_BY(mu_);  // by rank: meetings it came to
  std::vector<bool> left_ ABSL_GUARDED_BY(mu_);        // by rank
  uint64_t finished_ ABSL_GUARDED_BY(mu_) = 0;         // meetings gone from the front of meetings_
  std::deque<std::shared_ptr<Meeting>> meetings_ ABSL_GUARDED_BY(mu_);
};

// Shared with works, which may outlive the communicator.
struct RankState {
  std::shared_ptr<Group> group;
  int32_t rank;
  absl::Duration timeout;
  mutable absl::Mutex mu;
  absl::Status first_error ABSL_GUARDED_BY(mu);
  CommCounters counters ABSL_GUARDED_BY(mu);

  absl::Status Check() const {
    absl::MutexLock lock(&mu);
    return first_error;
  }
  absl::Status Record(const absl::Status& status) {
    absl::MutexLock lock(&mu);
    if (first_error.ok()) first_error = status;
    return status;
  }
  // This rank can go no further; the others are told why.
  void Fail(const absl::Status& status) {
    Record(status).IgnoreError();
    group->Fail(absl::UnavailableError(absl::StrCat("rank ", rank, " failed: ", status.message())));
  }
};

absl::StatusOr<std::shared_ptr<Meeting>> Join(RankState& state, const CollectiveCall& call, Part part) {
  SW_RETURN_IF_ERROR(state.Check());
  if (absl::Status invalid = Validate(call, state.group->size()); !invalid.ok()) {
    state.Fail(invalid);
    return invalid;
  }
  {
    absl::MutexLock lock(&state.mu);
    Count(call, part.message.size(), &state.counters);
  }
  absl::StatusOr<std::shared_ptr<Meeting>> meeting = state.group->Join(state.rank, call, std::move(part));
  if (!meeting.ok()) state.Record(meeting.status()).IgnoreError();
  return meeting;
}

class ThreadWork final : public Work {
 public:
  ThreadWork(std::shared_ptr<RankState> state, std::shared_ptr<Meeting> meeting)
      : state_(std::move(state)), meeting_(std::move(meeting)) {}
  ~ThreadWork() override { Wait().IgnoreError(); }

  absl::Status Wait() override {
    if (meeting_ == nullptr) return result_;
    result_ = state_->Record(state_->group->Await(*meeting_, state_->timeout));
    meeting_.reset();
    return result_;
  }

 private:
  std::shared_ptr<RankState> state_;
  std::shared_ptr<Meeting> meeting_;  // null once waited for
  absl::Status result_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int32_t rank, absl::Duration timeout)
      : state_(std::make_shared<RankState>()) {
    state_->group = std::move(group);
    state_->rank = rank;
    state_->timeout = timeout;
  }
  ~ThreadCommunicator() override { state_->group->Leave(state_->rank); }

  int32_t rank() const override { return state_->rank; }
  int32_t size() const override { return state_->group->size(); }

  absl::Status Barrier() override { return Meet({.collective = Collective::kBarrier}, {}).status(); }

  absl::Status Broadcast(void* data, int64_t count, DType dtype, int32_t root) override {
    return Meet({.collective = Collective::kBroadcast, .dtype = dtype, .root = root, .counts = {count}}, {.data = data})
        .status();
  }

  absl::StatusOr<std::unique_ptr<Work>> AllReduceAsync(void* data, int64_t count, DType dtype, ReduceOp op) override {
    return Start({.collective = Collective::kAllReduce, .dtype = dtype, .op = op, .counts = {count}}, data);
  }

  absl::StatusOr<std::unique_ptr<Work>> AllGatherAsync(void* data, absl::Span<const int64_t> counts,
                                                       DType dtype) override {
    return Start({.collective = Collective::kAllGather, .dtype = dtype, .counts = {counts.begin(), counts.end()}},
                 data);
  }

  absl::StatusOr<std::unique_ptr<Work>> ReduceScatterAsync(void* data, absl::Span<const int64_t> counts, DType dtype,
                                                           ReduceOp op) override {
    return Start(
        {.collective = Collective::kReduceScatter, .dtype = dtype, .op = op, .counts = {counts.begin(), counts.end()}},
        data);
  }

  absl::StatusOr<std::vector<std::string>> AllGatherBytes(absl::string_view message) override {
    SW_ASSIGN_OR_RETURN(auto meeting,
                        Meet({.collective = Collective::kAllGatherBytes}, {.message = std::string(message)}));
    return meeting->messages;
  }

  absl::StatusOr<std::string> BroadcastBytes(absl::string_view message, int32_t root) override {
    Part part{.message = rank() == root ? std::string(message) : ""};
    SW_ASSIGN_OR_RETURN(auto meeting, Meet({.collective = Collective::kBroadcastBytes, .root = root}, std::move(part)));
    return meeting->messages[root];
  }

  void Abandon(const absl::Status& status) override {
    state_->Fail(status.ok() ? absl::UnavailableError("left without an error") : status);
  }

  CommCounters counters() const override {
    absl::MutexLock lock(&state_->mu);
    return state_->counters;
  }

 private:
  absl::StatusOr<std::unique_ptr<Work>> Start(const CollectiveCall& call, void* data) {
    SW_ASSIGN_OR_RETURN(auto meeting, Join(*state_, call, {.data = data}));
    return std::make_unique<ThreadWork>(state_, std::move(meeting));
  }

  // The meeting, over.
  absl::StatusOr<std::shared_ptr<Meeting>> Meet(const CollectiveCall& call, Part part) {
    SW_ASSIGN_OR_RETURN(auto meeting, Join(*state_, call, std::move(part)));
    SW_RETURN_IF_ERROR(state_->Record(state_->group->Await(*meeting, state_->timeout)));
    return meeting;
  }

  std::shared_ptr<RankState> state_;
};

std::vector<std::unique_ptr<Communicator>> MakeGroup(int32_t size, absl::Duration timeout,
                                                     const std::shared_ptr<RootCause>& root_cause) {
  auto group = std::make_shared<Group>(size, root_cause);
  std::vector<std::unique_ptr<Communicator>> ranks;
  ranks.reserve(size);
  for (int32_t rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<ThreadCommunicator>(group, rank, timeout));
  }
  return ranks;
}

}  // namespace

std::vector<CommGroups> MakeThreadGroups(int32_t size, absl::Duration timeout) {
  SW_CHECK(size > 0);
  auto root_cause = std::make_shared<RootCause>();
  auto data = MakeGroup(size, timeout, root_cause);
  auto control = MakeGroup(size, timeout, root_cause);
  auto checkpoint = MakeGroup(size, timeout, root_cause);
  std::vector<CommGroups> groups(size);
  for (int32_t rank = 0; rank < size; ++rank) {
    groups[rank] = {std::move(data[rank]), std::move(control[rank]), std::move(checkpoint[rank])};
  }
  return groups;
}

std::vector<absl::Status> RunRanks(int32_t size, const std::function<absl::Status(CommGroups& groups)>& fn,
                                   absl::Duration timeout) {
  std::vector<CommGroups> groups = MakeThreadGroups(size, timeout);
  std::vector<absl::Status> statuses(size);
  std::vector<std::thread> threads;
  threads.reserve(size);
  for (int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&fn, &status = statuses[rank], mine = std::move(groups[rank])]() mutable {
      status = fn(mine);
      if (!status.ok()) mine.Abandon(status);
      mine = CommGroups();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace shardwright
