#include "shardwright/core/comm/communicator.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

// A status as a message: nothing if OK, else its code as one byte, then its text.
std::string Encode(const absl::Status& status) {
  if (status.ok()) return "";
  return absl::StrCat(std::string(1, static_cast<char>(status.code())), status.message());
}

absl::Status Decode(const std::string& message) {
  if (message.empty()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(message[0]), message.substr(1));
}

// " (one of 2 different failures on 3 of 4 ranks)", or nothing if there is but one kind.
std::string Tally(const std::vector<std::string>& messages) {
  std::set<std::string> distinct;
  int64_t failures = 0;
  for (const std::string& message : messages) {
    if (message.empty()) continue;
    ++failures;
    distinct.insert(message);
  }
  if (distinct.size() < 2) return "";
  return absl::StrCat(" (one of ", distinct.size(), " different failures on ", failures, " of ", messages.size(),
                      " ranks)");
}

absl::Status WaitFor(const absl::StatusOr<std::unique_ptr<Work>>& work) {
  return work.ok() ? (*work)->Wait() : work.status();
}

}  // namespace

absl::Status Communicator::AllReduce(void* data, int64_t count, DType dtype, ReduceOp op) {
  return WaitFor(AllReduceAsync(data, count, dtype, op));
}

absl::Status Communicator::AllGather(void* data, absl::Span<const int64_t> counts, DType dtype) {
  return WaitFor(AllGatherAsync(data, counts, dtype));
}

absl::Status Communicator::ReduceScatter(void* data, absl::Span<const int64_t> counts, DType dtype, ReduceOp op) {
  return WaitFor(ReduceScatterAsync(data, counts, dtype, op));
}

void CommGroups::Abandon(const absl::Status& status) const {
  for (Communicator* comm : {data.get(), control.get(), checkpoint.get()}) {
    if (comm != nullptr) comm->Abandon(status);
  }
}

absl::Status AgreeOnStatus(Communicator& comm, const absl::Status& mine) {
  absl::StatusOr<std::vector<std::string>> all = comm.AllGatherBytes(Encode(mine));
  // A rank with an error of its own reports that rather than the group's.
  if (!all.ok()) return mine.ok() ? all.status() : mine;
  const auto first =
      std::find_if(all->begin(), all->end(), [](const std::string& message) { return !message.empty(); });
  if (first == all->end()) return absl::OkStatus();
  const int32_t rank = static_cast<int32_t>(first - all->begin());
  const absl::Status status = rank == comm.rank() ? mine : Annotate(Decode(*first), absl::StrCat("rank ", rank));
  const std::string tally = Tally(*all);
  return tally.empty() ? status : absl::Status(status.code(), absl::StrCat(status.message(), tally));
}

}  // namespace shardwright
