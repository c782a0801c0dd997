#include "shardwright/core/format/format.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

constexpr uint64_t kHeadBytes = 4096;

}  // namespace

bool PathFacts::Has(absl::string_view name) const {
  return std::any_of(entries.begin(), entries.end(), [&](const DirectoryEntry& entry) { return entry.name == name; });
}

bool PathFacts::HasSuffix(absl::string_view suffix) const {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const DirectoryEntry& entry) { return absl::EndsWith(entry.name, suffix); });
}

absl::StatusOr<PathFacts> LookAt(Storage& storage, absl::string_view path) {
  PathFacts facts;
  facts.path = std::string(path);
  while (facts.path.size() > 1 && facts.path.back() == '/') facts.path.pop_back();
  SW_ASSIGN_OR_RETURN(const FileInfo info, storage.Info(facts.path), _ << "opening checkpoint");
  absl::StatusOr<std::vector<DirectoryEntry>> entries =
      info.type == FileType::kRegular ? absl::FailedPreconditionError("a file") : storage.List(facts.path);
  if (entries.ok()) {
    facts.is_directory = true;
    facts.entries = *std::move(entries);
    return facts;
  }
  if (info.type == FileType::kDirectory) return entries.status();
  SW_ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, storage.OpenRead(facts.path), _ << "opening checkpoint");
  facts.size_bytes = file->size_bytes();
  facts.head.resize(std::min(facts.size_bytes, kHeadBytes));
  SW_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(facts.head)));
  return facts;
}

}  // namespace shardwright
