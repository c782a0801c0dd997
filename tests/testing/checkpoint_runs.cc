#include "shardwright/tests/testing/checkpoint_runs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/verify.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/format/native/native.h"

namespace shardwright::testing {
namespace {

absl::Status FirstError(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

SaveContent ContentOf(const SaveSetup& setup, int32_t rank) {
  SaveContent content;
  content.progress = {setup.step, 0, setup.step * 8};
  content.topology = {setup.world_size, 1, "test", 1};
  content.extras["step"] = setup.step;
  content.rank_extras["rank"] = int64_t{rank};
  return content;
}

absl::StatusOr<LoadPlan> MakePlan(Storage& storage, absl::string_view path, const std::vector<MadeTensor>& wanted,
                                  const LoadSetup& setup) {
  SW_ASSIGN_OR_RETURN(std::shared_ptr<const Manifest> manifest, OpenManifest(storage, path));
  LoadView view(std::move(manifest));
  if (setup.edit) setup.edit(view);
  std::vector<std::pair<std::string, std::string>> aliases;
  for (const MadeTensor& tensor : wanted) {
    if (!tensor.alias_of.empty()) aliases.emplace_back(tensor.meta.name, tensor.alias_of);
  }
  MatchResult matched = MatchTensors(view, Wanted(wanted), aliases, {});
  SW_RETURN_IF_ERROR(ProblemsToStatus(matched.problems));
  return PlanLoad(view.shared_manifest(), std::move(matched.tensors), setup.rule, World{setup.world_size, 1},
                  {LoadMode::kConcurrent, 1, setup.window_bytes}, setup.budget_bytes);
}

}  // namespace

std::vector<absl::Status> SaveOnRanks(Storage& storage, absl::string_view path, const std::vector<MadeTensor>& tensors,
                                      const SaveSetup& setup) {
  return RunRanks(setup.world_size, [&](CommGroups& groups) -> absl::Status {
    const RankState state(tensors, setup.rule, groups.rank(), setup.world_size);
    SavePlanOptions options;
    options.layout = setup.layout;
    options.window_bytes = setup.window_bytes;
    SW_ASSIGN_OR_RETURN(const SavePlan plan,
                        PlanSave(ToSave(tensors), setup.rule, World{setup.world_size, 1}, options));
    MemoryBudget budget(plan.peak_bytes_per_rank);
    return SaveCheckpoint(storage, path, plan, LocalTensors(state.state()), ContentOf(setup, groups.rank()), budget,
                          *groups.checkpoint)
        .status();
  });
}

absl::Status Save(Storage& storage, absl::string_view path, const std::vector<MadeTensor>& tensors,
                  const SaveSetup& setup) {
  return FirstError(SaveOnRanks(storage, path, tensors, setup));
}

absl::Status Loaded::status() const {
  return FirstError(statuses);
}

Loaded Load(Storage& storage, absl::string_view path, const std::vector<MadeTensor>& wanted, const LoadSetup& setup) {
  Loaded loaded;
  loaded.states.resize(setup.world_size);
  loaded.reports.resize(setup.world_size);
  loaded.budget_peaks.resize(setup.world_size);
  loaded.totals.resize(setup.world_size);
  loaded.statuses = RunRanks(setup.world_size, [&](CommGroups& groups) -> absl::Status {
    const int32_t rank = groups.rank();
    loaded.states[rank] = std::make_unique<RankState>(wanted, setup.rule, rank, setup.world_size, kPoison);
    SW_ASSIGN_OR_RETURN(const LoadPlan plan, MakePlan(storage, path, wanted, setup));
    loaded.totals[rank] = plan.TotalsOf(rank);
    MemoryBudget budget(setup.budget_bytes);
    LocalTensors sink(loaded.states[rank]->state());
    const absl::StatusOr<LoadReport> report =
        LoadCheckpoint(storage, path, plan, sink, setup.options, budget, *groups.checkpoint);
    loaded.budget_peaks[rank] = budget.peak_bytes();
    if (report.ok()) loaded.reports[rank] = *report;
    return report.status();
  });
  return loaded;
}

absl::Status CheckHolds(Storage& storage, absl::string_view path, const std::vector<MadeTensor>& tensors) {
  const VerifyResult verified = VerifyCheckpoint(storage, path, CheckLevel::kFull);
  if (verified.verdict != VerifyVerdict::kOk) return absl::DataLossError(absl::StrJoin(verified.problems, "; "));
  const Loaded loaded = Load(storage, path, tensors);
  SW_RETURN_IF_ERROR(loaded.status());
  const std::vector<std::string> differences = loaded.states[0]->Differences(tensors);
  if (differences.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(path, " has other bytes of ", absl::StrJoin(differences, ", ")));
}

}  // namespace shardwright::testing
