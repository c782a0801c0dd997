// SavePlan: which rank writes which bytes of which file. Every byte of the state is written exactly once: replicas are
// deduplicated and their work is balanced by bytes. Pure: every rank computes the same plan from the same arguments.
//
//   sharded, 2 ranks:  model-00000-of-00002.safetensors      optimizer-00000-of-00002.safetensors     written by rank 0
//                      model-00001-of-00002.safetensors      optimizer-00001-of-00002.safetensors     written by rank 1
//   single_file:       model.safetensors                     optimizer.safetensors                    written in place
//   by all
#ifndef SHARDWRIGHT_CORE_PLAN_SAVE_PLAN_H_
#define SHARDWRIGHT_CORE_PLAN_SAVE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/plan/placement.h"
#include "shardwright/core/plan/save_tensor.h"

namespace shardwright {

struct SavePlanOptions {
  SaveLayout layout = SaveLayout::kSharded;
  // Performance.
  uint64_t window_bytes = 4 * 1024 * 1024;  // staging of one rank for tensors that do not lie contiguous in memory
};

// An entry of a data file: a box stored dense, as one safetensors tensor. Its key is the tensor's name if the box is
// the whole tensor, else "name@o0,o1".
struct FileEntry {
  uint32_t tensor = 0;  // index into SavePlan::tensors
  Box box;
  uint64_t data_offset_bytes =
      0;  // from the start of the file's data section (the header's length is added by the writer)
  uint64_t length_bytes = 0;
  friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

struct PlannedFile {
  std::string path;     // relative to the checkpoint's directory
  int32_t creator = 0;  // the rank that creates it and writes its header
  uint64_t data_bytes = 0;
  std::vector<FileEntry> entries;  // in order of offset, without gaps
  friend bool operator==(const PlannedFile&, const PlannedFile&) = default;
};

// One rank writes `box` (dense) at data_offset_bytes. Becomes one ShardMeta of the manifest.
struct WriteItem {
  int32_t rank = 0;
  uint32_t tensor = 0;
  Box box;
  uint32_t file = 0;
  uint64_t data_offset_bytes = 0;
  uint64_t length_bytes = 0;
  friend bool operator==(const WriteItem&, const WriteItem&) = default;
};

// Immutable value.
struct SavePlan {
  World world;
  SaveLayout layout = SaveLayout::kSharded;
  std::vector<SaveTensor> tensors;  // sorted by name
  std::vector<PlannedFile> files;
  std::vector<WriteItem> items;      // by rank, then file, then offset
  uint64_t peak_bytes_per_rank = 0;  // transient memory

  std::vector<WriteItem> ItemsOf(int32_t rank) const;
  uint64_t BytesOf(int32_t rank) const;  // written by that rank
  // Equal plans have equal digests, on every machine: ranks compare them before they write into one another's files.
  ContentHash Digest() const;
  friend bool operator==(const SavePlan&, const SavePlan&) = default;
};

// kInvalidArgument if names repeat, an alias names no tensor, a dtype has no safetensors name, the ranks' boxes leave a
// hole in a tensor, or they overlap without being equal; it names the tensor.
absl::StatusOr<SavePlan> PlanSave(std::vector<SaveTensor> tensors, PlacementRule rule, const World& world,
                                  const SavePlanOptions& options);

// "name" or "name@3,0"
std::string FileKey(const TensorMeta& tensor, const Box& box);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_SAVE_PLAN_H_
