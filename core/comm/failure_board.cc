#include "shardwright/core/comm/failure_board.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

constexpr absl::Duration kPollEvery = absl::Milliseconds(50);
constexpr size_t kNamedAtMost = 8;
constexpr char kFailureKey[] = "failure";

std::string GroupKey(absl::string_view group, absl::string_view name) {
  return absl::StrCat("group/", group, "/", name);
}

// Code and message in one line: "4|AllReduce(sum of 12 F32)".
std::string Encode(absl::StatusCode code, absl::string_view text) {
  return absl::StrCat(static_cast<int>(code), "|", text);
}

absl::Status Decode(absl::string_view encoded) {
  const std::vector<std::string> parts = absl::StrSplit(encoded, absl::MaxSplits('|', 1));
  int code = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &code)) return absl::UnknownError(encoded);
  return absl::Status(static_cast<absl::StatusCode>(code), parts[1]);
}

// Of keys[begin, end), the indices of those that are not there: halves that are complete cost one question.
absl::Status FindMissing(KeyValueStore& store, const std::vector<std::string>& keys, int32_t begin, int32_t end,
                         std::vector<int32_t>* missing) {
  if (begin == end) return absl::OkStatus();
  SW_ASSIGN_OR_RETURN(const bool complete, store.HasAll({keys.begin() + begin, keys.begin() + end}));
  if (complete) return absl::OkStatus();
  if (end - begin == 1) {
    missing->push_back(begin);
    return absl::OkStatus();
  }
  const int32_t middle = begin + (end - begin) / 2;
  SW_RETURN_IF_ERROR(FindMissing(store, keys, begin, middle, missing));
  return FindMissing(store, keys, middle, end, missing);
}

std::vector<int32_t> Difference(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  std::vector<int32_t> result;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

std::vector<int32_t> Intersection(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  std::vector<int32_t> result;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

}  // namespace

std::string NameRanks(const std::vector<int32_t>& ranks) {
  const size_t named = std::min(ranks.size(), kNamedAtMost);
  std::string text = absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                                  absl::StrJoin(ranks.begin(), ranks.begin() + static_cast<int64_t>(named), ", "));
  if (ranks.size() > named) absl::StrAppend(&text, " and ", ranks.size() - named, " more");
  return text;
}

FailureBoard::FailureBoard(KeyValueStore& store, std::string store_name, int32_t rank, int32_t size,
                           absl::Duration grace)
    : store_(store), store_name_(std::move(store_name)), rank_(rank), size_(size), grace_(grace) {}

std::vector<std::string> FailureBoard::KeysOfAll(absl::string_view prefix) const {
  std::vector<std::string> keys;
  keys.reserve(size_);
  for (int32_t rank = 0; rank < size_; ++rank) keys.push_back(absl::StrCat(prefix, "/", rank));
  return keys;
}

absl::StatusOr<std::vector<int32_t>> FailureBoard::Missing(absl::string_view prefix) {
  std::vector<int32_t> missing;
  SW_RETURN_IF_ERROR(FindMissing(store_, KeysOfAll(prefix), 0, size_, &missing));
  return missing;
}

void FailureBoard::RaiseAlarm(absl::string_view group) {
  // Without a store there is nobody to tell; the connections that break tell the rest.
  const absl::StatusOr<int64_t> count = store_.Increment("alarms");
  if (!count.ok()) return;
  std::vector<std::string> keys;
  keys.reserve(size_);
  for (int32_t rank = 0; rank < size_; ++rank) keys.push_back(absl::StrCat("wake/", rank, "/", *count - 1));
  store_.SetAll(keys, group).IgnoreError();
}

bool FailureBoard::PostFailure(absl::string_view group, const absl::Status& status) {
  bool consequence;
  {
    absl::MutexLock lock(&mu_);
    consequence = saw_break_ || !known_failure_.ok();
  }
  if (!consequence) {
    store_.SetIfAbsent(kFailureKey, absl::StrCat(rank_, "|", Encode(status.code(), status.message()))).IgnoreError();
  }
  RaiseAlarm(group);
  return !consequence;
}

absl::Status FailureBoard::ReadFailure(KeyValueStore& store, absl::Status* failure) {
  *failure = absl::OkStatus();
  SW_ASSIGN_OR_RETURN(const std::optional<std::string> posted, store.Get(kFailureKey));
  if (!posted) return absl::OkStatus();
  const std::vector<std::string> parts = absl::StrSplit(*posted, absl::MaxSplits('|', 1));
  if (parts.size() != 2) return absl::InternalError(absl::StrCat("a failure was posted as \"", *posted, "\""));
  if (parts[0] == absl::StrCat(rank_)) return absl::OkStatus();
  *failure = absl::UnavailableError(absl::StrCat("rank ", parts[0], " failed: ", Decode(parts[1]).message()));
  absl::MutexLock lock(&mu_);
  known_failure_ = *failure;
  return absl::OkStatus();
}

absl::Status FailureBoard::Known() const {
  absl::MutexLock lock(&mu_);
  return known_failure_;
}

absl::Status FailureBoard::LostStore(const BrokenCall& broken, const absl::Status& error) const {
  // The watcher may have heard why before the store went.
  if (absl::Status known = Known(); !known.ok()) return known;
  return absl::Status(broken.status.code(),
                      absl::StrCat(broken.call, ": ", broken.status.message(), "; ", store_name_,
                                   " is gone, too, so nobody can say why (", error.message(), ")"));
}

void FailureBoard::PostBroken(const BrokenCall& broken) {
  {
    absl::MutexLock lock(&mu_);
    saw_break_ = true;
  }
  // Where the store is gone, Explain says so.
  store_.SetIfAbsent(GroupKey(broken.group, "reason"), Encode(broken.status.code(), broken.status.message()))
      .IgnoreError();
  store_.Set(GroupKey(broken.group, absl::StrCat("gave_up/", rank_)), broken.call).IgnoreError();
  RaiseAlarm(broken.group);
}

absl::Status FailureBoard::Explain(const BrokenCall& broken) {
  absl::Status answer;
  const absl::Status asked = AwaitWords(broken, &answer);
  return asked.ok() ? answer : LostStore(broken, asked);
}

absl::Status FailureBoard::AwaitWords(const BrokenCall& broken, absl::Status* answer) {
  const std::vector<std::string> words = KeysOfAll(GroupKey(broken.group, "gave_up"));
  const absl::Time deadline = absl::Now() + grace_;
  while (true) {
    SW_RETURN_IF_ERROR(ReadFailure(store_, answer));
    if (!answer->ok()) return absl::OkStatus();
    SW_ASSIGN_OR_RETURN(const bool complete, store_.HasAll(words));
    if (complete || absl::Now() >= deadline) return NameTheMissing(broken, answer);
    absl::SleepFor(std::min(kPollEvery, deadline - absl::Now()));
  }
}

absl::Status FailureBoard::NameTheMissing(const BrokenCall& broken, absl::Status* answer) {
  // All ranks report what the first of them saw: a deadline here is a broken connection there.
  SW_ASSIGN_OR_RETURN(const std::optional<std::string> first, store_.Get(GroupKey(broken.group, "reason")));
  const absl::Status reason = first ? Decode(*first) : broken.status;
  const auto result = [&](absl::string_view who) {
    *answer = absl::Status(reason.code(), absl::StrCat(broken.call, ": ", reason.message(), ": ", who));
    return absl::OkStatus();
  };
  SW_ASSIGN_OR_RETURN(const std::vector<int32_t> silent, Missing("alive"));
  SW_ASSIGN_OR_RETURN(const std::vector<int32_t> elsewhere, Missing(GroupKey(broken.group, "gave_up")));
  SW_ASSIGN_OR_RETURN(const std::vector<int32_t> present, Missing("left"));
  if (const auto left = Difference(elsewhere, present); !left.empty()) {
    return result(absl::StrCat(NameRanks(left), left.size() == 1 ? " has" : " have", " left the run"));
  }
  if (const auto dead = Intersection(silent, elsewhere); !dead.empty()) {
    return result(absl::StrCat(NameRanks(dead), " did not answer within ", absl::FormatDuration(grace_),
                               " (killed, stopped or cut off)"));
  }
  if (!elsewhere.empty()) {
    return result(
        absl::StrCat(NameRanks(elsewhere), elsewhere.size() == 1 ? " is" : " are", " alive but did not come to it"));
  }
  SW_ASSIGN_OR_RETURN(const std::string calls, CallsOfAll(broken.group));
  return result(absl::StrCat("every rank is alive: ", calls));
}

absl::StatusOr<std::string> FailureBoard::CallsOfAll(absl::string_view group) {
  std::vector<std::string> calls;
  for (int32_t rank = 0; rank < std::min<int32_t>(size_, kNamedAtMost); ++rank) {
    SW_ASSIGN_OR_RETURN(const std::optional<std::string> call,
                        store_.Get(GroupKey(group, absl::StrCat("gave_up/", rank))));
    calls.push_back(absl::StrCat("rank ", rank, " was in ", call.value_or("none")));
  }
  if (size_ > static_cast<int32_t>(calls.size())) calls.push_back("...");
  return absl::StrJoin(calls, ", ");
}

absl::StatusOr<std::optional<std::string>> FailureBoard::AwaitAlarm(KeyValueStore& watcher_store, int64_t k) {
  {
    absl::MutexLock lock(&mu_);
    if (stopping_) return std::nullopt;
    next_alarm_ = k;
  }
  const std::string key = absl::StrCat("wake/", rank_, "/", k);
  bool raised = false;
  while (!raised) {
    SW_ASSIGN_OR_RETURN(raised, watcher_store.WaitForAll({key}, absl::Hours(24)));
  }
  {
    absl::MutexLock lock(&mu_);
    if (stopping_) return std::nullopt;
  }
  SW_RETURN_IF_ERROR(watcher_store.Set(absl::StrCat("alive/", rank_), "1"));
  absl::Status heard;  // kept for when the store is gone
  SW_RETURN_IF_ERROR(ReadFailure(watcher_store, &heard));
  return watcher_store.Get(key);
}

absl::Status FailureBoard::StopWatching() {
  int64_t next;
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    next = next_alarm_;
  }
  return store_.SetIfAbsent(absl::StrCat("wake/", rank_, "/", next), "");
}

}  // namespace shardwright
