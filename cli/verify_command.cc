#include "shardwright/cli/verify_command.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "shardwright/cli/app/locate.h"
#include "shardwright/cli/common_flags.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/checkpoint/verify.h"
#include "shardwright/core/storage/posix.h"

namespace shardwright::cli {
namespace {

constexpr size_t kMaxProblemsShown = 20;  // a checkpoint; --json has all

struct Timed {
  VerifyResult result;
  absl::Duration duration;
};

Timed VerifyOne(Storage& storage, const std::string& path, CheckLevel level) {
  const absl::Time start = absl::Now();
  Timed timed{VerifyCheckpoint(storage, path, level), {}};
  timed.duration = absl::Now() - start;
  return timed;
}

std::string Line(const Timed& timed, size_t width) {
  const VerifyResult& result = timed.result;
  std::string out = absl::StrFormat("%-10s %-*s", VerdictName(result.verdict), static_cast<int>(width), result.path);
  if (result.verdict == VerifyVerdict::kOk) {
    return absl::StrFormat("%s  %s  %.2f s\n", out, FormatBytes(result.bytes_checked),
                           absl::ToDoubleSeconds(timed.duration));
  }
  if (result.problems.size() == 1) return absl::StrCat(out, "  ", result.problems.front(), "\n");
  absl::StrAppend(&out, "  ", result.problems.size(), " problems\n");
  for (size_t i = 0; i < std::min(result.problems.size(), kMaxProblemsShown); ++i) {
    absl::StrAppend(&out, "           ", result.problems[i], "\n");
  }
  if (result.problems.size() > kMaxProblemsShown) {
    absl::StrAppend(&out, "           and ", result.problems.size() - kMaxProblemsShown, " more (--json lists all)\n");
  }
  return out;
}

std::string JsonLine(const Timed& timed) {
  nlohmann::ordered_json out = {{"schema", "shardwright.verify.v1"},
                                {"path", timed.result.path},
                                {"verdict", std::string(VerdictName(timed.result.verdict))},
                                {"problems", timed.result.problems},
                                {"bytes_checked", timed.result.bytes_checked},
                                {"shards", timed.result.shards},
                                {"seconds", absl::ToDoubleSeconds(timed.duration)}};
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string Summary(const std::map<VerifyVerdict, int>& counts) {
  int total = 0;
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts) {
    total += count;
    parts.push_back(absl::StrCat(count, " ", absl::AsciiStrToLower(VerdictName(verdict))));
  }
  return absl::StrCat(total, " checked: ", absl::StrJoin(parts, ", "), "\n");
}

// Damage and unfinished saves are findings; what could not be read says nothing of the bytes.
int ExitStatusOf(const std::map<VerifyVerdict, int>& counts) {
  if (counts.count(VerifyVerdict::kDamaged) + counts.count(VerifyVerdict::kPartial) > 0) return kExitFailed;
  return counts.count(VerifyVerdict::kUnreadable) > 0 ? kExitUnreadable : kExitGood;
}

// Run directories become their checkpoints; a path that cannot be looked into is kept, to be reported as unreadable.
std::vector<std::string> AllPaths(Storage& storage, const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  for (const std::string& argument : arguments) {
    absl::StatusOr<std::vector<std::string>> expanded = app::ExpandRunDirectory(storage, argument);
    if (!expanded.ok()) expanded = std::vector<std::string>{argument};
    paths.insert(paths.end(), expanded->begin(), expanded->end());
  }
  return paths;
}

int Run(const std::vector<std::string>& arguments) {
  absl::StatusOr<CheckLevel> level = ParseCheckLevel(FLAGS_check);
  if (level.ok() && *level == CheckLevel::kOff)
    level = absl::InvalidArgumentError("--check=off leaves nothing to verify");
  if (!level.ok()) return ReportError("verify", level.status());
  const std::unique_ptr<Storage> storage = MakePosixStorage();
  const std::vector<std::string> paths = AllPaths(*storage, arguments);
  size_t width = 0;
  for (const std::string& path : paths) width = std::max(width, path.size());
  std::map<VerifyVerdict, int> counts;
  for (const std::string& path : paths) {
    const Timed timed = VerifyOne(*storage, path, *level);
    ++counts[timed.result.verdict];
    std::fputs((FLAGS_json ? JsonLine(timed) : Line(timed, width)).c_str(), stdout);
    std::fflush(stdout);
  }
  if (!FLAGS_json && paths.size() > 1) std::fputs(Summary(counts).c_str(), stdout);
  return ExitStatusOf(counts);
}

}  // namespace

Command VerifyCommand() {
  return {
      .name = "verify",
      .arguments = "CHECKPOINT...",
      .summary =
          "Check every byte of checkpoints against their checksums; a run's directory means all of its checkpoints.",
      .details = "Exit status: 0 all good, 1 something is damaged or unfinished, 3 something could not be read.",
      .flags = {"check", "json"},
      .min_arguments = 1,
      .max_arguments = -1,
      .run = Run};
}

}  // namespace shardwright::cli
