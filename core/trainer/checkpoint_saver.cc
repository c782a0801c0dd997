#include "shardwright/core/trainer/checkpoint_saver.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/run_directory.h"
#include "shardwright/core/trainer/step_control.h"

namespace shardwright {
namespace {

std::string Normal(absl::string_view path) {
  return (std::filesystem::path(std::string(path)) / "").lexically_normal().string();
}

}  // namespace

CheckpointSaver::CheckpointSaver(std::string run_directory, const StrategyContext& context, Strategy& strategy,
                                 const Callbacks& callbacks)
    : run_directory_(std::move(run_directory)), context_(context), strategy_(strategy), callbacks_(callbacks) {}

void CheckpointSaver::SetResumed(const std::string& path, int64_t step) {
  if (Normal(ParentPath(path)) != Normal(run_directory_)) return;
  last_path_ = path;
  last_step_ = step;
}

absl::Status CheckpointSaver::Save(const TrainingProgress& progress, TrainingState state,
                                   const std::vector<std::string>& links) {
  if (progress.step == last_step_) return PointLinks(links);
  SW_ASSIGN_OR_RETURN(const SaveReport report, Capture(progress, std::move(state)));
  last_path_ = report.path;
  last_step_ = progress.step;
  SW_RETURN_IF_ERROR(PointLinks(links));
  const SavedCheckpoint saved = {report.path, progress.step, report.total_bytes, report.duration};
  for (const std::unique_ptr<Callback>& callback : callbacks_) callback->OnSaved(saved);
  return absl::OkStatus();
}

absl::StatusOr<SaveReport> CheckpointSaver::Capture(const TrainingProgress& progress, TrainingState state) {
  SaveRequest request;
  SW_ASSIGN_OR_RETURN(request.path,
                      OnRankZero(*context_.groups->control,
                                 [&] { return FreshCheckpointPath(*context_.storage, run_directory_, progress.step); }),
                      _ << "saving step " << progress.step);
  for (const std::unique_ptr<Callback>& callback : callbacks_) {
    Value::Map kept = callback->SaveState();
    if (!kept.empty()) state.callbacks[std::string(callback->name())] = std::move(kept);
  }
  request.progress = progress;
  request.extras = ToExtras(state);
  request.rank_extras = ToRankExtras(strategy_.RandomState());
  return strategy_.Save(request);
}

absl::Status CheckpointSaver::PointLinks(const std::vector<std::string>& links) {
  Action all{.links = links};
  for (const std::unique_ptr<Callback>& callback : callbacks_) all.Merge(Action{.links = callback->StandingLinks()});
  return OnRankZero(*context_.groups->control,
                    [&]() -> absl::StatusOr<std::string> {
                      for (const std::string& link : all.links) {
                        SW_RETURN_IF_ERROR(PointLink(*context_.storage, run_directory_, link, last_path_))
                            << "pointing " << link << " at " << last_path_;
                      }
                      return std::string();
                    })
      .status();
}

}  // namespace shardwright
