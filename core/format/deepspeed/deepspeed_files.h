// The files of a DeepSpeed checkpoint, by their names.
//
//   latest                                                     the tag, as text
//   <tag>/mp_rank_00_model_states.pt                           stages 0 to 2
//   <tag>/zero_pp_rank_<rank>_mp_rank_00_model_states.pt       stage 3, one per rank
//   <tag>/[bf16_]zero_pp_rank_<rank>_mp_rank_00_optim_states.pt
#ifndef SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_DEEPSPEED_FILES_H_
#define SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_DEEPSPEED_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/format/format.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright::deepspeed {

// The folder that a checkpoint lies in, and what the folder to which its paths are relative is.
struct Location {
  std::string directory;
  std::string prefix;                   // "global_step2/", or empty where `directory` is the tag's own folder
  std::vector<DirectoryEntry> entries;  // of the tag's folder
};

// Finds the tag: as `options` say, else as `latest_file` says, else the path is the tag's own folder. kDataLoss for a
// tag that leads elsewhere, or to nothing.
absl::StatusOr<Location> Locate(Storage& storage, const PathFacts& facts, absl::string_view latest_file,
                                const OpenOptions& options);

struct Files {
  std::vector<std::string> model;      // one, or by rank
  std::vector<std::string> optimizer;  // by rank
  bool model_by_rank = false;
};

// kUnimplemented naming the file for tensor parallelism, pipelines and experts; kDataLoss if a rank is missing.
absl::StatusOr<Files> SortFiles(const std::vector<DirectoryEntry>& entries);

}  // namespace shardwright::deepspeed

#endif  // SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_DEEPSPEED_FILES_H_
