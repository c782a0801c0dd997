#include "shardwright/core/trainer/start_point.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/run_directory.h"
#include "shardwright/core/checkpoint/verify.h"

namespace shardwright {
namespace {

constexpr int kMaxLinks = 16;
constexpr size_t kNamesInMessages = 8;

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "(there are step-00000200, step-00000100)"
std::string WhatThereIs(Storage& storage, absl::string_view run_directory) {
  const absl::StatusOr<std::vector<RunCheckpoint>> all = ListCheckpoints(storage, run_directory);
  if (!all.ok() || all->empty()) return absl::StrCat(run_directory, " has no checkpoints");
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(all->size(), kNamesInMessages); ++i) names.push_back(BaseName((*all)[i].path));
  const size_t more = all->size() - names.size();
  return absl::StrCat(run_directory, " has ", absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

// "file:x", "file:///x" and "x"; no slashes at the end.
std::string PlainPath(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "file:")) absl::ConsumePrefix(&text, "//");
  while (text.size() > 1 && absl::EndsWith(text, "/")) text.remove_suffix(1);
  return std::string(text);
}

// A bare name means one in the run directory, if there is one; else, and with "file:", it is a path.
absl::StatusOr<std::string> Locate(Storage& storage, absl::string_view run_directory, absl::string_view text) {
  const std::string path = PlainPath(text);
  const std::string inside = JoinPath(run_directory, path);
  const bool may_be_inside = !absl::StartsWith(text, "file:") && !absl::StrContains(path, "/");
  if (may_be_inside && Exists(storage, inside)) return FollowLinks(storage, inside);
  if (!path.empty() && Exists(storage, path)) return FollowLinks(storage, path);
  return absl::NotFoundError(absl::StrCat("no checkpoint at \"", text, "\"; ", WhatThereIs(storage, run_directory)));
}

absl::StatusOr<StartPoint> FindStep(Storage& storage, absl::string_view run_directory, int64_t step) {
  SW_ASSIGN_OR_RETURN(const std::vector<RunCheckpoint> all, ListCheckpoints(storage, run_directory));
  for (const RunCheckpoint& checkpoint : all) {
    if (checkpoint.step == step) return StartPoint{StartPoint::Kind::kContinue, checkpoint.path, {}};
  }
  return absl::NotFoundError(absl::StrCat("no checkpoint of step ", step, "; ", WhatThereIs(storage, run_directory)));
}

absl::StatusOr<StartPoint> FindNewest(Storage& storage, absl::string_view run_directory) {
  SW_ASSIGN_OR_RETURN(ResumeChoice choice, FindResumeCheckpoint(storage, run_directory));
  if (choice.path.empty()) return StartPoint{};
  return StartPoint{StartPoint::Kind::kContinue, std::move(choice.path), std::move(choice.skipped)};
}

absl::StatusOr<StartPoint> FindContinued(Storage& storage, absl::string_view run_directory, const ResumeWish& wish) {
  switch (wish.kind) {
    case ResumeWish::Kind::kNone:
      return StartPoint{};
    case ResumeWish::Kind::kAuto:
      return FindNewest(storage, run_directory);
    case ResumeWish::Kind::kStep:
      return FindStep(storage, run_directory, wish.step);
    case ResumeWish::Kind::kPath:
      break;
  }
  SW_ASSIGN_OR_RETURN(std::string path, Locate(storage, run_directory, wish.path));
  return StartPoint{StartPoint::Kind::kContinue, std::move(path), {}};
}

// Structure, as FindResumeCheckpoint judges it. Empty if it is intact.
std::string Damage(Storage& storage, const std::string& path) {
  const VerifyResult result = VerifyCheckpoint(storage, path, CheckLevel::kQuick);
  if (result.verdict == VerifyVerdict::kOk || result.verdict == VerifyVerdict::kUnsealed) return "";
  return result.problems.empty() ? std::string(VerdictName(result.verdict)) : result.problems.front();
}

}  // namespace

absl::StatusOr<ResumeWish> ParseResumeWish(absl::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError("resume: expected auto, none, a step or a path, got nothing");
  if (text == "auto") return ResumeWish{ResumeWish::Kind::kAuto};
  if (text == "none") return ResumeWish{ResumeWish::Kind::kNone};
  if (!IsNumber(text)) return ResumeWish{ResumeWish::Kind::kPath, 0, std::string(text)};
  int64_t step = 0;
  if (!absl::SimpleAtoi(text, &step)) {
    return absl::InvalidArgumentError(absl::StrCat("resume: step ", text, " is too large"));
  }
  return ResumeWish{ResumeWish::Kind::kStep, step};
}

absl::StatusOr<std::string> FollowLinks(Storage& storage, std::string path) {
  for (int links = 0; links < kMaxLinks; ++links) {
    SW_ASSIGN_OR_RETURN(const FileInfo info, storage.Info(path));
    if (info.type != FileType::kSymlink) return path;
    SW_ASSIGN_OR_RETURN(const std::string target, storage.ReadLink(path));
    const bool is_complete = absl::StartsWith(target, "/") || !absl::StrContains(path, "/");
    path = is_complete ? target : JoinPath(ParentPath(path), target);
  }
  return absl::FailedPreconditionError(absl::StrCat("following ", path, ": more than ", kMaxLinks, " links"));
}

absl::StatusOr<StartPoint> ChooseStartPoint(Storage& storage, absl::string_view run_directory, const ResumeWish& wish,
                                            absl::string_view init_from) {
  SW_ASSIGN_OR_RETURN(StartPoint point, FindContinued(storage, run_directory, wish), _ << "resuming");
  if (point.kind != StartPoint::Kind::kFresh || init_from.empty()) return point;
  SW_ASSIGN_OR_RETURN(std::string path, Locate(storage, run_directory, init_from), _ << "starting from weights");
  return StartPoint{StartPoint::Kind::kWeightsOnly, std::move(path), {}};
}

absl::StatusOr<StartPoint> ChooseOlder(Storage& storage, absl::string_view run_directory, const StartPoint& failed,
                                       const absl::Status& why) {
  StartPoint point{StartPoint::Kind::kContinue, "", failed.skipped};
  point.skipped.push_back(absl::StrCat(BaseName(failed.path), ": ", why.message()));
  SW_ASSIGN_OR_RETURN(const std::vector<RunCheckpoint> all, ListCheckpoints(storage, run_directory));
  auto candidate = std::find_if(all.begin(), all.end(), [&](const RunCheckpoint& c) { return c.path == failed.path; });
  while (candidate != all.end() && ++candidate != all.end()) {
    const std::string damage = Damage(storage, candidate->path);
    if (damage.empty()) {
      point.path = candidate->path;
      return point;
    }
    point.skipped.push_back(absl::StrCat(BaseName(candidate->path), ": ", damage));
  }
  return absl::DataLossError(absl::StrCat("no checkpoint of ", run_directory,
                                          " is intact: ", absl::StrJoin(point.skipped, "; "),
                                          "; start anew with --resume=none or in another run directory"));
}

}  // namespace shardwright
