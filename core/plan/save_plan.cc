#include "shardwright/core/plan/save_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/plan/canonical_bytes.h"
#include "shardwright/core/plan/save_assign.h"
#include "shardwright/core/plan/save_validate.h"

namespace shardwright {
namespace {

absl::Status ValidateWorld(const World& world, const SavePlanOptions& options) {
  if (world.size < 1 || world.ranks_per_node < 1) {
    return absl::InvalidArgumentError(absl::StrCat("planning a save: a world of ", world.size, " ranks, ",
                                                   world.ranks_per_node, " a node, is not possible"));
  }
  if (options.window_bytes < 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("planning a save: a window of ", options.window_bytes, " bytes is too small, 64 is the least"));
  }
  return absl::OkStatus();
}

struct RankBox {
  Box box;
  int32_t rank = 0;
  friend auto operator<=>(const RankBox&, const RankBox&) = default;
};

// The non-empty boxes of all ranks, equal ones side by side; a tensor without elements is held by all.
absl::StatusOr<std::vector<RankBox>> BoxesOfRanks(const TensorMeta& tensor, PlacementRule rule, int32_t world_size) {
  std::vector<RankBox> held;
  held.reserve(world_size);
  const bool no_elements = tensor.elements() == 0;
  for (int32_t rank = 0; rank < world_size; ++rank) {
    Box box = no_elements ? Box::Whole(tensor.shape) : rule(tensor, rank, world_size);
    SW_RETURN_IF_ERROR(ValidateBox(box, tensor.shape)) << PlanningToSave(tensor) << ": box of rank " << rank;
    if (no_elements || !box.empty()) held.push_back({std::move(box), rank});
  }
  if (!std::is_sorted(held.begin(), held.end())) std::sort(held.begin(), held.end());
  return held;
}

// Splits a tensor into the distinct boxes that ranks hold, with their holders.
absl::Status AddHeldBoxes(const TensorMeta& tensor, uint32_t index, PlacementRule rule, int32_t world_size,
                          HolderSets* sets, std::vector<HeldBox>* out) {
  SW_ASSIGN_OR_RETURN(std::vector<RankBox> held, BoxesOfRanks(tensor, rule, world_size));
  std::vector<Box> distinct;
  std::vector<int32_t> ranks;
  for (size_t i = 0; i < held.size(); ++i) {
    ranks.push_back(held[i].rank);
    if (i + 1 < held.size() && held[i + 1].box == held[i].box) continue;
    distinct.push_back(held[i].box);
    out->push_back(HeldBox{index, std::move(held[i].box), ItemSize(tensor.dtype), sets->Intern(ranks)});
    ranks.clear();
  }
  SW_RETURN_IF_ERROR(CheckTiling(Box::Whole(tensor.shape), distinct))
      << PlanningToSave(tensor) << " from the boxes of " << world_size << " ranks";
  return absl::OkStatus();
}

absl::Status CheckContiguous(const std::vector<SaveTensor>& tensors, const std::vector<HeldBox>& boxes) {
  for (const HeldBox& held : boxes) {
    const TensorMeta& tensor = tensors[held.tensor].meta;
    if (IsContiguous(Box::Whole(tensor.shape), held.box)) continue;
    return absl::InvalidArgumentError(absl::StrCat(PlanningToSave(tensor), " into a single file: box ",
                                                   held.box.ToString(), " of shape ", ShapeToString(tensor.shape),
                                                   " is not one run of bytes; use layout \"sharded\""));
  }
  return absl::OkStatus();
}

bool IsOptimizer(const SaveTensor& tensor) {
  return tensor.meta.role == Role::kOptimizer;
}

// Order inside files: larger items first, so that every element lies naturally aligned; then by name, that is by index.
auto PlaceInFile(const std::vector<SaveTensor>& tensors, uint32_t tensor) {
  return std::make_tuple(IsOptimizer(tensors[tensor]), -ItemSize(tensors[tensor].meta.dtype), tensor);
}

std::string ShardedFileName(bool optimizer, int32_t rank, int32_t world_size) {
  return absl::StrFormat("%s-%05d-of-%05d.safetensors", optimizer ? "optimizer" : "model", rank, world_size);
}

// Appends an entry to a file and returns where its data begin.
uint64_t AppendEntry(PlannedFile* file, uint32_t tensor, const Box& box, uint64_t bytes) {
  const uint64_t offset = file->data_bytes;
  file->entries.push_back(FileEntry{tensor, box, offset, bytes});
  file->data_bytes += bytes;
  return offset;
}

// One file per rank and kind; every assigned box is an entry of its own.
void LayOutSharded(std::vector<AssignedBox> boxes, SavePlan* plan) {
  std::sort(boxes.begin(), boxes.end(), [&](const AssignedBox& a, const AssignedBox& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    if (a.tensor != b.tensor) return PlaceInFile(plan->tensors, a.tensor) < PlaceInFile(plan->tensors, b.tensor);
    return a.box < b.box;
  });
  for (AssignedBox& assigned : boxes) {
    const bool optimizer = IsOptimizer(plan->tensors[assigned.tensor]);
    if (plan->files.empty() || plan->files.back().creator != assigned.rank ||
        IsOptimizer(plan->tensors[plan->files.back().entries.back().tensor]) != optimizer) {
      plan->files.push_back(
          PlannedFile{ShardedFileName(optimizer, assigned.rank, plan->world.size), assigned.rank, 0, {}});
    }
    const uint64_t offset = AppendEntry(&plan->files.back(), assigned.tensor, assigned.box, assigned.bytes);
    plan->items.push_back(WriteItem{assigned.rank, assigned.tensor, std::move(assigned.box),
                                    static_cast<uint32_t>(plan->files.size() - 1), offset, assigned.bytes});
  }
}

// One file per kind, of whole tensors. Returns the order of the tensors in the files.
std::vector<uint32_t> LayOutWholeTensors(SavePlan* plan) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < plan->tensors.size(); ++i) {
    if (plan->tensors[i].alias_of.empty()) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return PlaceInFile(plan->tensors, a) < PlaceInFile(plan->tensors, b); });
  for (uint32_t i : order) {
    const SaveTensor& tensor = plan->tensors[i];
    const absl::string_view path = IsOptimizer(tensor) ? "optimizer.safetensors" : "model.safetensors";
    if (plan->files.empty() || plan->files.back().path != path) {
      plan->files.push_back(PlannedFile{std::string(path), 0, 0, {}});
    }
    AppendEntry(&plan->files.back(), i, Box::Whole(tensor.meta.shape), static_cast<uint64_t>(tensor.meta.bytes()));
  }
  return order;
}

// Puts every assigned box at its place inside its tensor's entry.
void PlaceItems(std::vector<AssignedBox> boxes, SavePlan* plan) {
  struct Place {
    uint32_t file = 0;
    uint64_t offset = 0;
  };
  std::vector<Place> places(plan->tensors.size());
  for (uint32_t file = 0; file < plan->files.size(); ++file) {
    for (const FileEntry& entry : plan->files[file].entries) places[entry.tensor] = {file, entry.data_offset_bytes};
  }
  for (AssignedBox& assigned : boxes) {
    const TensorMeta& tensor = plan->tensors[assigned.tensor].meta;
    const int64_t first = assigned.bytes == 0 ? 0 : FirstElement(Box::Whole(tensor.shape), assigned.box);
    const uint64_t offset = places[assigned.tensor].offset + static_cast<uint64_t>(first * ItemSize(tensor.dtype));
    plan->items.push_back(WriteItem{assigned.rank, assigned.tensor, std::move(assigned.box),
                                    places[assigned.tensor].file, offset, assigned.bytes});
  }
  std::sort(plan->items.begin(), plan->items.end(), [](const WriteItem& a, const WriteItem& b) {
    return std::tie(a.rank, a.file, a.data_offset_bytes, a.tensor) <
           std::tie(b.rank, b.file, b.data_offset_bytes, b.tensor);
  });
}

// A tensor "w@3,0" can collide with a box of "w".
absl::Status CheckKeys(const SavePlan& plan) {
  const bool possible = std::any_of(plan.tensors.begin(), plan.tensors.end(), [](const SaveTensor& tensor) {
    return tensor.meta.name.find('@') != std::string::npos;
  });
  for (const PlannedFile& file : plan.files) {
    absl::flat_hash_set<std::string> keys;
    for (const FileEntry& entry : file.entries) {
      if (!possible) break;
      std::string key = FileKey(plan.tensors[entry.tensor].meta, entry.box);
      if (keys.insert(key).second) continue;
      return absl::InvalidArgumentError(absl::StrCat(PlanningToSave(plan.tensors[entry.tensor].meta), " in ", file.path,
                                                     ": key \"", key, "\" is taken by another tensor"));
    }
  }
  return absl::OkStatus();
}

uint64_t LargestLoad(const SavePlan& plan) {
  std::vector<uint64_t> loads(plan.world.size, 0);
  for (const WriteItem& item : plan.items) loads[item.rank] += item.length_bytes;
  return *std::max_element(loads.begin(), loads.end());
}

auto ItemRange(const std::vector<WriteItem>& items, int32_t rank) {
  const auto begin =
      std::partition_point(items.begin(), items.end(), [&](const WriteItem& i) { return i.rank < rank; });
  const auto end = std::partition_point(begin, items.end(), [&](const WriteItem& i) { return i.rank == rank; });
  return std::make_pair(begin, end);
}

}  // namespace

std::vector<WriteItem> SavePlan::ItemsOf(int32_t rank) const {
  const auto [begin, end] = ItemRange(items, rank);
  return std::vector<WriteItem>(begin, end);
}

uint64_t SavePlan::BytesOf(int32_t rank) const {
  const auto [begin, end] = ItemRange(items, rank);
  uint64_t bytes = 0;
  for (auto item = begin; item != end; ++item) bytes += item->length_bytes;
  return bytes;
}

ContentHash SavePlan::Digest() const {
  CanonicalBytes bytes;
  bytes.Add(static_cast<uint64_t>(world.size));
  bytes.Add(static_cast<uint64_t>(layout));
  for (const SaveTensor& tensor : tensors) {
    bytes.Add(tensor.meta);
    bytes.Add(absl::string_view(tensor.alias_of));
  }
  for (const PlannedFile& file : files) {
    bytes.Add(absl::string_view(file.path));
    bytes.Add(file.data_bytes);
  }
  for (const WriteItem& item : items) {
    bytes.Add(static_cast<uint64_t>(item.rank));
    bytes.Add(uint64_t{item.tensor});
    bytes.Add(item.box.offset);
    bytes.Add(item.box.size);
    bytes.Add(uint64_t{item.file});
    bytes.Add(item.data_offset_bytes);
  }
  return bytes.Hash();
}

absl::StatusOr<SavePlan> PlanSave(std::vector<SaveTensor> tensors, PlacementRule rule, const World& world,
                                  const SavePlanOptions& options) {
  SW_RETURN_IF_ERROR(ValidateWorld(world, options));
  std::sort(tensors.begin(), tensors.end(),
            [](const SaveTensor& a, const SaveTensor& b) { return a.meta.name < b.meta.name; });
  SW_RETURN_IF_ERROR(ValidateSaveTensors(tensors));
  SavePlan plan{world, options.layout, std::move(tensors), {}, {}, 0};
  HolderSets sets(world.size);
  std::vector<HeldBox> held;
  const auto add_boxes = [&](uint32_t i) {
    return AddHeldBoxes(plan.tensors[i].meta, i, rule, world.size, &sets, &held);
  };
  if (options.layout == SaveLayout::kSingleFile) {
    for (uint32_t i : LayOutWholeTensors(&plan)) SW_RETURN_IF_ERROR(add_boxes(i));
    SW_RETURN_IF_ERROR(CheckContiguous(plan.tensors, held));
    PlaceItems(AssignStretches(held, sets, world.size), &plan);
  } else {
    for (uint32_t i = 0; i < plan.tensors.size(); ++i) {
      if (!plan.tensors[i].alias_of.empty()) continue;
      SW_RETURN_IF_ERROR(add_boxes(i));
    }
    LayOutSharded(AssignWhole(held, sets, world.size), &plan);
  }
  SW_RETURN_IF_ERROR(CheckKeys(plan));
  plan.peak_bytes_per_rank = std::min(options.window_bytes, LargestLoad(plan));
  return plan;
}

std::string FileKey(const TensorMeta& tensor, const Box& box) {
  if (box.IsWhole(tensor.shape)) return tensor.name;
  return absl::StrCat(tensor.name, "@", absl::StrJoin(box.offset, ","));
}

}  // namespace shardwright
