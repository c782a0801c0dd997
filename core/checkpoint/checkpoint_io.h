// CheckpointIO: runs a plan under a memory budget. The only code that moves tensor bytes between memory and files.
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_CHECKPOINT_IO_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_CHECKPOINT_IO_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shardwright/core/base/memory_budget.h"
#include "shardwright/core/checkpoint/check_level.h"
#include "shardwright/core/checkpoint/save_content.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/plan/load_plan.h"
#include "shardwright/core/plan/save_plan.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/core/tensor/source_sink.h"

namespace shardwright {

struct SaveReport {
  std::string path;            // of the published checkpoint
  uint64_t bytes_written = 0;  // by this rank
  uint64_t total_bytes = 0;
  absl::Duration duration;
};

// Collective over `comm`. Writes the planned files under a temporary name beside `path`, agrees that every rank
// finished and synced, writes the manifest, renames to `path` and syncs the parent: the checkpoint is there whole, or
// not at all. On any failure all ranks return it and the temporary directory is removed (or, after a crash, recognised
// by its name). kAlreadyExists if `path` is taken. The caller holds the run directory's lock.
absl::StatusOr<SaveReport> SaveCheckpoint(Storage& storage, absl::string_view path, const SavePlan& plan,
                                          const TensorSource& source, const SaveContent& content, MemoryBudget& budget,
                                          Communicator& comm);

struct LoadOptions {
  CheckLevel check = CheckLevel::kFull;
  // Behaviour. True: a first pass verifies every chunk that any rank will read, and only if all are good is the sink
  // written; costs a second read. False: each window is verified before it is put in the sink, so a damaged file can be
  // found half-way; for sinks that hold nothing worth keeping (a run that is starting).
  bool verify_first = true;
};

struct LoadReport {
  uint64_t bytes_read = 0;            // from storage, all passes and headers included
  uint64_t transient_peak_bytes = 0;  // allocated for staging at one time; never above LoadPlan::StagingBytes
  absl::Duration wait, read, copy;  // for memory and other ranks; in storage; the rest: verifying, converting, placing
  absl::Duration duration;
};

// Collective over `comm`. Puts the plan's boxes of this rank into `sink`. kDataLoss names tensor, shard, file and
// offset. All ranks return an error if one has it.
absl::StatusOr<LoadReport> LoadCheckpoint(Storage& storage, absl::string_view path, const LoadPlan& plan,
                                          TensorSink& sink, const LoadOptions& options, MemoryBudget& budget,
                                          Communicator& comm);

// Reads one box of one tensor (dense, row-major, dtype as stored) with its checksums: for inspection, hooks and slices.
absl::Status ReadBox(Storage& storage, absl::string_view path, const Manifest& manifest, absl::string_view name,
                     const Box& box, absl::Span<char> out, CheckLevel check = CheckLevel::kFull);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_CHECKPOINT_IO_H_
