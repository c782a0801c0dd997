#include "shardwright/checkpoint.h"

#include <utility>
#include <vector>

#include "shardwright/core/base/memory_budget.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/plan/placement.h"
#include "shardwright/core/plan/save_plan.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/core/tensor/source_sink.h"

namespace shardwright {

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpoint(absl::string_view path) {
  std::unique_ptr<Storage> storage = MakePosixStorage();
  SW_ASSIGN_OR_RETURN(std::shared_ptr<const Manifest> manifest, OpenManifest(*storage, path));
  return std::make_unique<Checkpoint>(std::move(storage), std::string(path), std::move(manifest));
}

VerifyResult Verify(absl::string_view path, CheckLevel level) {
  return VerifyCheckpoint(*MakePosixStorage(), path, level);
}

absl::StatusOr<SaveReport> WriteCheckpoint(absl::string_view path, const LocalState& tensors,
                                           const SaveContent& content, SaveLayout layout) {
  std::vector<SaveTensor> planned;
  for (const LocalTensor& tensor : tensors) {
    SW_RETURN_IF_ERROR(tensor.box.IsWhole(tensor.meta.shape)
                           ? absl::OkStatus()
                           : absl::InvalidArgumentError(tensor.meta.name + ": want the whole tensor, got a slice"));
    planned.push_back({tensor.meta, tensor.alias_of});
  }
  SW_ASSIGN_OR_RETURN(SavePlan plan, PlanSave(std::move(planned), &ReplicatedBox, World{}, {.layout = layout}));
  std::vector<CommGroups> alone = MakeThreadGroups(1);
  MemoryBudget budget;
  const std::unique_ptr<Storage> storage = MakePosixStorage();
  return SaveCheckpoint(*storage, path, plan, LocalTensors(tensors), content, budget, *alone[0].checkpoint);
}

}  // namespace shardwright
