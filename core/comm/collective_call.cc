#include "shardwright/core/comm/collective_call.h"

#include <numeric>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/base/checked_math.h"
#include "shardwright/core/comm/reduce.h"

namespace shardwright {
namespace {

absl::string_view OpName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
  }
  return "?";
}

bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
}

bool HasRoot(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kBroadcastBytes;
}

bool HasPieces(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllGather;
}

bool HasElements(Collective collective) {
  return HasPieces(collective) || collective == Collective::kBroadcast || collective == Collective::kAllReduce;
}

// Counts are summed up in bytes, so that no later product overflows.
absl::Status ValidateCounts(const CollectiveCall& call) {
  const int64_t item_bytes = ItemSize(call.dtype);
  if (item_bytes == 0) return absl::InvalidArgumentError(absl::StrCat(call.ToString(), ": invalid dtype"));
  std::optional<int64_t> total = 0;
  for (int64_t count : call.counts) {
    if (count < 0) return absl::InvalidArgumentError(absl::StrCat(call.ToString(), ": negative count ", count));
    const std::optional<int64_t> bytes = CheckedMultiply(count, item_bytes);
    if (bytes) total = CheckedAdd(*total, *bytes);
    if (!bytes || !total) return absl::InvalidArgumentError(absl::StrCat(call.ToString(), ": more than 2^63 bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string CollectiveCall::ToString() const {
  const auto elements = [&] { return absl::StrCat(absl::StrJoin(counts, "+"), " ", DTypeName(dtype)); };
  switch (collective) {
    case Collective::kBarrier:
      return "Barrier";
    case Collective::kBroadcast:
      return absl::StrCat("Broadcast(", elements(), " from rank ", root, ")");
    case Collective::kAllReduce:
      return absl::StrCat("AllReduce(", OpName(op), " of ", elements(), ")");
    case Collective::kReduceScatter:
      return absl::StrCat("ReduceScatter(", OpName(op), " of ", elements(), ")");
    case Collective::kAllGather:
      return absl::StrCat("AllGather(", elements(), ")");
    case Collective::kAllGatherBytes:
      return "AllGatherBytes";
    case Collective::kBroadcastBytes:
      return absl::StrCat("BroadcastBytes(from rank ", root, ")");
  }
  return "?";
}

uint64_t CollectiveCall::TotalBytes() const {
  return static_cast<uint64_t>(OffsetOf(static_cast<int32_t>(counts.size())) * ItemSize(dtype));
}

int64_t CollectiveCall::OffsetOf(int32_t rank) const {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

absl::Status Validate(const CollectiveCall& call, int32_t size) {
  if (HasElements(call.collective)) {
    const size_t expected = HasPieces(call.collective) ? size : 1;
    if (call.counts.size() != expected) {
      return absl::InvalidArgumentError(
          absl::StrCat(call.ToString(), ": want one count for each of ", size, " ranks, got ", call.counts.size()));
    }
    if (absl::Status status = ValidateCounts(call); !status.ok()) return status;
  }
  if (HasRoot(call.collective) && (call.root < 0 || call.root >= size)) {
    return absl::InvalidArgumentError(absl::StrCat(call.ToString(), ": want a root below ", size, ", got ", call.root));
  }
  if (Reduces(call.collective) && !CanReduce(call.dtype, call.op)) {
    return absl::InvalidArgumentError(
        absl::StrCat(call.ToString(), ": there is no ", OpName(call.op), " of ", DTypeName(call.dtype)));
  }
  return absl::OkStatus();
}

void Count(const CollectiveCall& call, uint64_t message_bytes, CommCounters* counters) {
  switch (call.collective) {
    case Collective::kBarrier:
      ++counters->barriers;
      return;
    case Collective::kBroadcast:
      ++counters->broadcasts;
      break;
    case Collective::kAllReduce:
      ++counters->all_reduces;
      break;
    case Collective::kReduceScatter:
      ++counters->reduce_scatters;
      break;
    case Collective::kAllGather:
      ++counters->all_gathers;
      break;
    case Collective::kAllGatherBytes:
    case Collective::kBroadcastBytes:
      ++counters->messages;
      counters->bytes += message_bytes;
      return;
  }
  counters->bytes += call.TotalBytes();
}

}  // namespace shardwright
