#include "shardwright/core/trainer/run_start.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/run_directory.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/trainer/step_control.h"

namespace shardwright {
namespace {

using Kind = StartPoint::Kind;

std::string Encode(const StartPoint& point) {
  return absl::StrCat(static_cast<int>(point.kind), point.path);
}

StartPoint Decode(absl::string_view message) {
  return StartPoint{static_cast<Kind>(message.front() - '0'), std::string(message.substr(1)), {}};
}

// "torch_cpu, torch_cuda"
std::string NamesOf(const Value::Map& generators) {
  return absl::StrJoin(generators, ", ", [](std::string* out, const auto& entry) { out->append(entry.first); });
}

// What this run is, compared before any byte is loaded: a changed model option is named rather than a list of shapes.
absl::Status CheckPoint(Storage& storage, const StartPoint& point, const TrainingState& current) {
  if (point.kind != Kind::kContinue) return absl::OkStatus();
  SW_ASSIGN_OR_RETURN(const std::shared_ptr<const Manifest> manifest, OpenManifest(storage, point.path),
                      _ << "resuming from " << point.path);
  SW_ASSIGN_OR_RETURN(const TrainingState saved, TrainingStateOf(*manifest), _ << "resuming from " << point.path);
  SW_RETURN_IF_ERROR(CheckContinues(saved, current)) << "resuming from " << point.path;
  return absl::OkStatus();
}

}  // namespace

RunStart::RunStart(const TrainerOptions& options, const StrategyContext& context, const TrainingState& current,
                   const Callbacks& callbacks, const Notes& notes)
    : options_(options), context_(context), current_(current), callbacks_(callbacks), notes_(notes) {}

absl::Status RunStart::Open() {
  SW_ASSIGN_OR_RETURN(const ResumeWish wish, ParseResumeWish(options_.resume));
  SW_RETURN_IF_ERROR(OnRankZero(control(), [&]() -> absl::StatusOr<std::string> {
    SW_RETURN_IF_ERROR(OpenDirectory()) << "opening run directory " << options_.run_directory;
    return std::string();
  }));
  return Choose([&] { return ChooseStartPoint(*context_.storage, options_.run_directory, wish, options_.init_from); });
}

absl::Status RunStart::OpenDirectory() {
  Storage& storage = *context_.storage;
  SW_RETURN_IF_ERROR(storage.CreateDirectories(options_.run_directory));
  SW_ASSIGN_OR_RETURN(lock_, LockRunDirectory(storage, options_.run_directory));
  return RemovePartials(storage, options_.run_directory);
}

absl::Status RunStart::Choose(const std::function<absl::StatusOr<StartPoint>()>& choose) {
  std::vector<std::string> skipped;
  SW_ASSIGN_OR_RETURN(const std::string message, OnRankZero(control(), [&]() -> absl::StatusOr<std::string> {
                        SW_ASSIGN_OR_RETURN(StartPoint point, choose());
                        SW_RETURN_IF_ERROR(CheckPoint(*context_.storage, point, current_));
                        skipped = point.skipped;
                        return Encode(point);
                      }));
  const size_t told = point_.skipped.size();
  for (size_t i = told; i < skipped.size(); ++i) notes_.Say(absl::StrCat("passing over ", skipped[i]));
  point_ = Decode(message);
  point_.skipped = std::move(skipped);
  return absl::OkStatus();
}

absl::Status RunStart::Load(Strategy& strategy) {
  if (point_.kind == Kind::kFresh) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const Manifest>> manifest = LoadPoint(strategy);
  while (FallsBack(manifest.status())) {
    SW_RETURN_IF_ERROR(Choose([&] {
      return ChooseOlder(*context_.storage, options_.run_directory, point_, manifest.status());
    })) << "resuming";
    manifest = LoadPoint(strategy);
  }
  SW_RETURN_IF_ERROR(manifest) << (point_.kind == Kind::kContinue ? "resuming from " : "starting from the weights of ")
                               << point_.path;
  if (point_.kind == Kind::kWeightsOnly) return absl::OkStatus();
  SW_RETURN_IF_ERROR(Restore(**manifest, strategy)) << "resuming from " << point_.path;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Manifest>> RunStart::LoadPoint(Strategy& strategy) {
  LoadRequest request;
  request.path = point_.path;
  request.strict = options_.strict;
  request.weights_only = point_.kind == Kind::kWeightsOnly;
  request.io.check = options_.check;
  request.io.verify_first = false;  // nothing worth keeping is overwritten, so that one pass over the bytes is enough
  const absl::StatusOr<LoadResult> loaded = strategy.Load(request);
  // Whether to fall back is decided by all ranks alike.
  SW_RETURN_IF_ERROR(AgreeOnStatus(control(), loaded.status()));
  for (const std::string& skipped : loaded->skipped) notes_.Say(absl::StrCat("not loaded: ", skipped));
  for (const std::string& note : loaded->notes) notes_.Say(note);
  return loaded->manifest;
}

bool RunStart::FallsBack(const absl::Status& status) const {
  return absl::IsDataLoss(status) && options_.resume == "auto" && point_.kind == Kind::kContinue;
}

absl::Status RunStart::Restore(const Manifest& manifest, Strategy& strategy) {
  SW_ASSIGN_OR_RETURN(const TrainingState saved, TrainingStateOf(manifest));
  for (const std::unique_ptr<Callback>& callback : callbacks_) {
    const auto found = saved.callbacks.find(std::string(callback->name()));
    if (found == saved.callbacks.end()) continue;
    const auto* state = found->second.get_if<Value::Map>();
    if (state == nullptr) continue;
    SW_RETURN_IF_ERROR(callback->LoadState(*state)) << "restoring callback " << callback->name();
  }
  progress_ = manifest.data().progress;
  resumed_from_ = point_.path;
  NoteChanges(manifest, saved, strategy);
  return RestoreRandom(manifest, strategy);
}

absl::Status RunStart::RestoreRandom(const Manifest& manifest, Strategy& strategy) {
  std::optional<Value::Map> random;
  if (manifest.data().topology.world_size == control().size()) random = RandomStateOf(manifest, control().rank());
  if (random.has_value()) {
    const std::string were = NamesOf(*random), are = NamesOf(strategy.RandomState());
    if (were == are) {
      SW_RETURN_IF_ERROR(strategy.SetRandomState(*random)) << "restoring random generators";
      return absl::OkStatus();
    }
    notes_.Say(absl::StrCat("random generators were ", were, ", are ", are, " on this device: they start anew"));
  }
  strategy.ReseedRandom(progress_.step);
  return absl::OkStatus();
}

void RunStart::NoteChanges(const Manifest& manifest, const TrainingState& saved, const Strategy& strategy) const {
  const Topology& was = manifest.data().topology;
  for (const std::string& change : AllowedChanges(saved, current_)) notes_.Say(change);
  if (was.world_size != control().size()) {
    notes_.Say(absl::StrCat("world size was ", was.world_size, ", is ", control().size(),
                            ": samples go on where they were, random generators start anew"));
  } else if (was.threads_per_rank != 0 && was.threads_per_rank != strategy.threads()) {
    notes_.Say(absl::StrCat("warning: threads of a rank were ", was.threads_per_rank, ", are ", strategy.threads(),
                            ": the last bits of results will differ from an uninterrupted run's"));
  }
  if (was.strategy != strategy.name()) {
    notes_.Say(absl::StrCat("strategy was ", was.strategy, ", is ", strategy.name()));
  }
}

std::string RunStart::Describe() const {
  switch (point_.kind) {
    case Kind::kFresh:
      return "starting fresh";
    case Kind::kContinue:
      return absl::StrCat("resuming from ", BaseName(point_.path));
    case Kind::kWeightsOnly:
      return absl::StrCat("starting from the weights of ", point_.path);
  }
  return "";
}

}  // namespace shardwright
