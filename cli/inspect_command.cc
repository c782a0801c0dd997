#include "shardwright/cli/inspect_command.h"

#include <gflags/gflags.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardwright/cli/app/inspect.h"
#include "shardwright/cli/common_flags.h"
#include "shardwright/cli/inspect_json.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/storage/posix.h"

DEFINE_bool(tensors, false, "list every tensor: name, type, shape, bytes, shards");
DEFINE_bool(files, false, "list the data files with their sizes");

namespace shardwright::cli {
namespace {

std::string CountOf(int64_t n) {
  if (n >= 1'000'000'000) return absl::StrFormat("%.2f B", static_cast<double>(n) / 1e9);
  if (n >= 1'000'000) return absl::StrFormat("%.2f M", static_cast<double>(n) / 1e6);
  if (n >= 10'000) return absl::StrFormat("%.1f k", static_cast<double>(n) / 1e3);
  return absl::StrCat(n);
}

std::string Plural(int64_t n, absl::string_view noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

absl::string_view RoleLabel(Role role) {
  switch (role) {
    case Role::kParameter:
      return "weights";
    case Role::kBuffer:
      return "buffers";
    case Role::kOptimizer:
      return "optimizer";
    case Role::kState:
      return "state";
  }
  return "other";
}

std::string Headline(const app::Inspection& seen) {
  const ManifestData& data = seen.manifest->data();
  return absl::StrCat("native checkpoint · ", seen.path, " · ",
                      data.topology.strategy.empty() ? "" : absl::StrCat(data.topology.strategy, " · "),
                      Plural(data.topology.world_size, "rank"), " · ", SaveLayoutName(data.layout), " · ",
                      FormatBytes(seen.manifest->TotalBytes()), seen.has_checksums ? "" : " · no checksums", "\n");
}

std::string Groups(const app::Inspection& seen) {
  std::string out =
      absl::StrCat(CountOf(seen.parameters), " parameters, ", Plural(seen.parameter_tensors, "tensor"), "\n");
  for (const app::TensorGroup& group : seen.groups) {
    absl::StrAppendFormat(
        &out, "  %-10s %-6s %10s   %s%s\n", RoleLabel(group.role), DTypeName(group.dtype), FormatBytes(group.bytes),
        Plural(group.tensors, "tensor"),
        group.role == Role::kOptimizer && !seen.optimizer.empty() ? absl::StrCat(" of ", seen.optimizer) : "");
  }
  for (const auto& [alias, target] : seen.tied) absl::StrAppendFormat(&out, "  %-10s %s = %s\n", "tied", alias, target);
  if (!seen.opaque.empty()) {
    absl::StrAppendFormat(&out, "  %-10s %s, not run\n", "opaque", Plural(seen.opaque.size(), "class"));
  }
  return out;
}

std::string TensorLines(const Manifest& manifest) {
  std::string out;
  for (const TensorEntry& entry : manifest.tensors()) {
    absl::StrAppendFormat(
        &out, "  %s  %s %s  %s\n", entry.meta.name, DTypeName(entry.meta.dtype), ShapeToString(entry.meta.shape),
        entry.alias_of.empty()
            ? absl::StrCat(FormatBytes(entry.meta.bytes()), "  ", Plural(entry.shards.size(), "shard"))
            : absl::StrCat("= ", entry.alias_of));
  }
  return out;
}

std::string Text(const app::Inspection& seen) {
  const TrainingProgress& progress = seen.manifest->data().progress;
  std::string out = absl::StrCat(Headline(seen), Groups(seen));
  absl::StrAppend(&out, "step ", progress.step, " · epoch ", progress.epoch, " · ", progress.samples_seen,
                  " samples seen\n");
  if (FLAGS_files) {
    for (const FileMeta& file : seen.manifest->files()) {
      absl::StrAppendFormat(&out, "  %10s  %s\n", FormatBytes(file.size_bytes), file.path);
    }
  }
  if (FLAGS_tensors) absl::StrAppend(&out, TensorLines(*seen.manifest));
  return out;
}

int Run(const std::vector<std::string>& arguments) {
  const std::unique_ptr<Storage> storage = MakePosixStorage();
  for (const std::string& path : arguments) {
    absl::StatusOr<app::Inspection> seen = app::Inspect(*storage, path);
    if (!seen.ok()) return ReportError("inspect", seen.status());
    const std::string out = FLAGS_json ? InspectionToJson(*seen) : Text(*seen);
    std::fwrite(out.data(), 1, out.size(), stdout);
    if (!FLAGS_json) std::fprintf(stderr, "next: shardwright verify %s\n", seen->path.c_str());
  }
  return kExitGood;
}

}  // namespace

Command InspectCommand() {
  return {.name = "inspect",
          .arguments = "CHECKPOINT...",
          .summary = "Tell what is in a checkpoint, or in a run's newest one; reads the manifest alone.",
          .flags = {"tensors", "files", "json"},
          .min_arguments = 1,
          .max_arguments = -1,
          .run = Run};
}

}  // namespace shardwright::cli
