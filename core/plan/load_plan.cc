#include "shardwright/core/plan/load_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

constexpr uint64_t kLeastWindowBytes = 64;

absl::StatusOr<LoadOrder> ResolveOrder(LoadOrder order) {
  if (order.mode == LoadMode::kAuto) order.mode = LoadMode::kConcurrent;
  if (order.mode != LoadMode::kConcurrent) {
    return absl::UnimplementedError(absl::StrCat("planning a load: load order \"", LoadModeName(order.mode),
                                                 "\" is not supported; use \"concurrent\" or \"auto\""));
  }
  if (order.window_bytes < kLeastWindowBytes) {
    return absl::InvalidArgumentError(absl::StrCat("planning a load: a window of ", order.window_bytes,
                                                   " bytes is too small, ", kLeastWindowBytes, " is the least"));
  }
  return order;
}

absl::Status Misfit(const LoadTensor& tensor, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("planning to load \"", tensor.target.name, "\": ", what));
}

absl::Status CheckStored(const LoadTensor& tensor, const Manifest& manifest) {
  const TensorEntry* entry = manifest.Find(tensor.source.source);
  if (entry == nullptr) {
    return Misfit(tensor, absl::StrCat("the checkpoint has no tensor \"", tensor.source.source, "\""));
  }
  if (entry->meta.shape != tensor.target.shape || entry->meta.dtype != tensor.source.stored_dtype) {
    return Misfit(tensor, absl::StrCat("\"", tensor.source.source, "\" is stored as ", DTypeName(entry->meta.dtype),
                                       ShapeToString(entry->meta.shape), ", want ",
                                       DTypeName(tensor.source.stored_dtype), ShapeToString(tensor.target.shape)));
  }
  return absl::OkStatus();
}

absl::Status CheckMade(const LoadTensor& tensor, const Manifest& manifest) {
  if (tensor.source.meta.shape != tensor.target.shape) {
    return Misfit(tensor, absl::StrCat("its source has shape ", ShapeToString(tensor.source.meta.shape), ", want ",
                                       ShapeToString(tensor.target.shape)));
  }
  for (const std::string& input : tensor.source.inputs) {
    if (manifest.Find(input) == nullptr) return Misfit(tensor, absl::StrCat("its input \"", input, "\" is not stored"));
  }
  const int64_t bytes = tensor.target.elements() * ItemSize(tensor.source.stored_dtype);
  if (tensor.source.derive == nullptr && static_cast<int64_t>(tensor.source.added_bytes.size()) != bytes) {
    return Misfit(tensor, absl::StrCat("it was given ", tensor.source.added_bytes.size(), " bytes, want ", bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckTensor(const LoadTensor& tensor, const Manifest& manifest) {
  if (!IsCastable(tensor.source.stored_dtype, tensor.target.dtype)) {
    return Misfit(tensor, absl::StrCat(DTypeName(tensor.source.stored_dtype), " does not convert to ",
                                       DTypeName(tensor.target.dtype)));
  }
  return tensor.source.source.empty() ? CheckMade(tensor, manifest) : CheckStored(tensor, manifest);
}

bool IsMade(const LoadTensor& tensor) {
  return tensor.source.source.empty();
}

uint64_t StoredBytes(const LoadTensor& tensor) {
  return static_cast<uint64_t>(tensor.target.elements() * ItemSize(tensor.source.stored_dtype));
}

uint64_t DeriveBytes(const LoadTensor& tensor, const Manifest& manifest) {
  uint64_t bytes = StoredBytes(tensor);
  for (const std::string& input : tensor.source.inputs) {
    bytes += static_cast<uint64_t>(manifest.Find(input)->meta.bytes());
  }
  return bytes;
}

StagingNeeds NeedsOf(const std::vector<LoadTensor>& tensors, const Manifest& manifest, uint64_t window_bytes) {
  StagingNeeds needs;
  uint64_t largest = 0;  // no request or piece is longer
  for (const FileMeta& file : manifest.files()) largest = std::max(largest, file.size_bytes);
  for (const LoadTensor& tensor : tensors) {
    if (IsMade(tensor)) largest = std::max(largest, StoredBytes(tensor));
    if (tensor.source.derive) needs.derive_bytes = std::max(needs.derive_bytes, DeriveBytes(tensor, manifest));
    if (tensor.source.stored_dtype != tensor.target.dtype) {
      const uint64_t cast = std::min(window_bytes, static_cast<uint64_t>(tensor.target.bytes()));
      needs.cast_bytes = std::max(needs.cast_bytes, cast);
    }
  }
  needs.window_bytes = std::max(kChecksumChunkBytes, std::min(window_bytes + 2 * kChecksumChunkBytes, largest));
  return needs;
}

// Which part of the need to look at when it does not fit.
std::string LargestUse(const LoadPlan& plan) {
  const StagingNeeds& needs = plan.staging();
  for (const LoadTensor& tensor : plan.tensors()) {
    if (tensor.source.derive && needs.derive_bytes >= needs.window_bytes &&
        DeriveBytes(tensor, plan.manifest()) == needs.derive_bytes) {
      return absl::StrCat("deriving \"", tensor.target.name, "\" takes ", FormatBytes(needs.derive_bytes), " of it");
    }
  }
  return absl::StrCat("a read window of ", FormatBytes(plan.order().window_bytes), " takes ",
                      FormatBytes(needs.window_bytes + needs.cast_bytes), " of it: lower window_bytes");
}

absl::Status CheckBudget(const LoadPlan& plan, uint64_t budget_bytes) {
  for (int32_t node = 0; node < plan.world().nodes(); ++node) {
    const uint64_t peak = plan.NodePeakBytes(node);
    if (peak <= budget_bytes) continue;
    const int32_t first = node * plan.world().ranks_per_node;
    return absl::ResourceExhaustedError(absl::StrCat(
        "planning a load: ranks ", first, " to ", std::min(plan.world().size, first + plan.world().ranks_per_node) - 1,
        " of node ", node, " need ", FormatBytes(peak), " of transient memory (", plan.StagingBytes(),
        " bytes a rank), the host memory budget allows ", FormatBytes(budget_bytes), " (", budget_bytes, " bytes); ",
        LargestUse(plan)));
  }
  return absl::OkStatus();
}

uint64_t TotalLength(const std::vector<ReadGroup>& groups) {
  uint64_t bytes = 0;
  for (const ReadGroup& group : groups) bytes += group.range.length_bytes();
  return bytes;
}

}  // namespace

int64_t WindowElements(uint64_t window_bytes, DType stored, DType target) {
  return static_cast<int64_t>(window_bytes) / std::max(ItemSize(stored), ItemSize(target));
}

std::vector<Read> ReadsOfWhole(const TensorEntry& entry, uint64_t window_bytes) {
  std::vector<Read> reads;
  const int64_t span = WindowElements(window_bytes, entry.meta.dtype, entry.meta.dtype);
  for (uint32_t shard = 0; shard < entry.shards.size(); ++shard) {
    AppendReads(0, shard, entry.shards[shard], ItemSize(entry.meta.dtype), entry.shards[shard].box, span, &reads);
  }
  SortReads(&reads);
  return reads;
}

const TensorEntry* LoadPlan::EntryOf(uint32_t tensor) const {
  const std::optional<ShardIndex>& index = (*indexes_)[tensor];
  return index ? &index->entry() : nullptr;
}

std::vector<Read> LoadPlan::ReadsOf(int32_t rank) const {
  std::vector<Read> reads;
  for (uint32_t i = 0; i < tensors_.size(); ++i) {
    const std::optional<ShardIndex>& index = (*indexes_)[i];
    if (!index) continue;
    const Box box = BoxOf(tensors_[i], rank);
    if (box.empty()) continue;
    const DType stored = tensors_[i].source.stored_dtype;
    const int64_t span = WindowElements(order_.window_bytes, stored, tensors_[i].target.dtype);
    index->ForEachOverlap(box, [&](uint32_t shard, const Box& common) {
      AppendReads(i, shard, index->entry().shards[shard], ItemSize(stored), common, span, &reads);
    });
  }
  SortReads(&reads);
  return reads;
}

std::vector<ReadGroup> LoadPlan::Group(const std::vector<Read>& reads) const {
  return GroupReads(
      reads, [&](const Read& read) -> const ShardMeta& { return ShardOf(read); }, order_.window_bytes);
}

uint64_t LoadPlan::InputBytes(const LoadTensor& tensor, uint64_t* reads) const {
  uint64_t bytes = 0;
  for (const std::string& input : tensor.source.inputs) {
    const TensorEntry& entry = manifest_->Resolve(*manifest_->Find(input));
    const std::vector<ReadGroup> groups = GroupReads(
        ReadsOfWhole(entry, order_.window_bytes),
        [&](const Read& read) -> const ShardMeta& { return entry.shards[read.shard]; }, order_.window_bytes);
    bytes += TotalLength(groups);
    *reads += groups.size();
  }
  return bytes;
}

RankTotals LoadPlan::TotalsOf(int32_t rank) const {
  RankTotals totals;
  const std::vector<ReadGroup> groups = Group(ReadsOf(rank));
  totals.bytes_read = TotalLength(groups);
  totals.reads = groups.size();
  totals.transient_bytes = StagingBytes();
  for (const LoadTensor& tensor : tensors_) {
    const int64_t elements = BoxOf(tensor, rank).elements();
    totals.bytes_needed += static_cast<uint64_t>(elements * ItemSize(tensor.source.stored_dtype));
    if (tensor.source.derive && elements > 0) totals.bytes_read += InputBytes(tensor, &totals.reads);
  }
  return totals;
}

uint64_t LoadPlan::NodePeakBytes(int32_t node) const {
  const int32_t first = node * world_.ranks_per_node;
  const int32_t ranks = std::min(world_.size, first + world_.ranks_per_node) - first;
  return StagingBytes() * static_cast<uint64_t>(std::max(0, ranks));
}

std::vector<std::vector<int32_t>> LoadPlan::Waves() const {
  std::vector<int32_t> all(static_cast<size_t>(world_.size));
  std::iota(all.begin(), all.end(), 0);
  return {std::move(all)};
}

absl::StatusOr<LoadPlan> PlanLoad(std::shared_ptr<const Manifest> manifest, std::vector<LoadTensor> tensors,
                                  PlacementRule rule, const World& world, const LoadOrder& order,
                                  uint64_t host_memory_budget_bytes) {
  if (world.size < 1 || world.ranks_per_node < 1) {
    return absl::InvalidArgumentError(absl::StrCat("planning a load: a world of ", world.size, " ranks, ",
                                                   world.ranks_per_node, " a node, is not possible"));
  }
  LoadPlan plan;
  SW_ASSIGN_OR_RETURN(plan.order_, ResolveOrder(order));
  auto indexes = std::make_shared<std::vector<std::optional<ShardIndex>>>(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    SW_RETURN_IF_ERROR(CheckTensor(tensors[i], *manifest));
    if (!IsMade(tensors[i])) (*indexes)[i].emplace(manifest->Resolve(*manifest->Find(tensors[i].source.source)));
  }
  plan.staging_ = NeedsOf(tensors, *manifest, plan.order_.window_bytes);
  plan.manifest_ = std::move(manifest);
  plan.tensors_ = std::move(tensors);
  plan.indexes_ = std::move(indexes);
  plan.rule_ = rule;
  plan.world_ = world;
  SW_RETURN_IF_ERROR(CheckBudget(plan, host_memory_budget_bytes));
  return plan;
}

}  // namespace shardwright
