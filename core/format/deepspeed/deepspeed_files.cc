#include "shardwright/core/format/deepspeed/deepspeed_files.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright::deepspeed {
namespace {

constexpr uint64_t kMaxTagBytes = 4096;
constexpr absl::string_view kModelSuffix = "_model_states.pt";
constexpr absl::string_view kOptimizerSuffix = "_optim_states.pt";

bool IsTag(absl::string_view tag) {
  return !tag.empty() && tag[0] != '.' && tag.find('/') == absl::string_view::npos &&
         tag.find('\\') == absl::string_view::npos && tag.find('\0') == absl::string_view::npos;
}

// Ranks in a file's name; -1: not there.
struct Ranks {
  int data = -1;
  int model = -1;
};

std::optional<int> TakeNumber(absl::string_view& text) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(text[digits])) ++digits;
  int number = 0;
  if (digits == 0 || digits > 9 || !absl::SimpleAtoi(text.substr(0, digits), &number)) return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

// "[bf16_]zero_pp_rank_<data>_mp_rank_<model>" or "mp_rank_<model>", all of it.
std::optional<Ranks> ParseRanks(absl::string_view stem) {
  Ranks ranks;
  absl::ConsumePrefix(&stem, "bf16_");
  if (absl::ConsumePrefix(&stem, "zero_pp_rank_")) {
    const auto data = TakeNumber(stem);
    if (!data.has_value() || !absl::ConsumePrefix(&stem, "_")) return std::nullopt;
    ranks.data = *data;
  }
  if (!absl::ConsumePrefix(&stem, "mp_rank_")) return std::nullopt;
  const auto model = TakeNumber(stem);
  if (!model.has_value() || !stem.empty()) return std::nullopt;
  ranks.model = *model;
  return ranks;
}

absl::Status Unsupported(absl::string_view name, absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat(absl::CHexEscape(name), ": ", what, " is not read"));
}

absl::Status RefuseOthers(absl::string_view name) {
  const bool expert = absl::StrContains(name, "expert") || absl::StrContains(name, "expp_rank_");
  if (expert) return Unsupported(name, "a checkpoint of a mixture of experts");
  if (absl::StartsWith(name, "layer_")) return Unsupported(name, "a checkpoint of a pipeline of stages");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> InOrder(const std::map<int, std::string>& by_rank) {
  std::vector<std::string> names;
  for (const auto& [rank, name] : by_rank) {
    if (rank != static_cast<int>(names.size())) {
      return absl::DataLossError(
          absl::StrCat("the file of rank ", names.size(), " is missing: next is ", absl::CHexEscape(name)));
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace

absl::StatusOr<Location> Locate(Storage& storage, const PathFacts& facts, absl::string_view latest_file,
                                const OpenOptions& options) {
  std::string tag = options.tag;
  if (tag.empty() && facts.Has(latest_file)) {
    SW_ASSIGN_OR_RETURN(tag, ReadWholeFile(storage, JoinPath(facts.path, latest_file), kMaxTagBytes));
    tag = std::string(absl::StripAsciiWhitespace(tag));
    if (!IsTag(tag)) {
      return absl::DataLossError(
          absl::StrCat(latest_file, " says \"", absl::CHexEscape(tag), "\", no name of a folder beside it"));
    }
  }
  if (tag.empty()) return Location{facts.path, "", facts.entries};
  if (!IsTag(tag))
    return absl::InvalidArgumentError(absl::StrCat("tag \"", absl::CHexEscape(tag), "\" is no name of a folder"));
  absl::StatusOr<std::vector<DirectoryEntry>> entries = storage.List(JoinPath(facts.path, tag));
  if (absl::IsNotFound(entries.status()) || absl::IsFailedPrecondition(entries.status())) {
    const std::string message = absl::StrCat("there is no folder \"", absl::CHexEscape(tag), "\"");
    if (!options.tag.empty()) return absl::NotFoundError(message);
    return absl::DataLossError(absl::StrCat(message, ", which ", latest_file, " names"));
  }
  SW_RETURN_IF_ERROR(entries.status());
  return Location{facts.path, absl::StrCat(tag, "/"), *std::move(entries)};
}

absl::StatusOr<Files> SortFiles(const std::vector<DirectoryEntry>& entries) {
  std::map<int, std::string> model;
  std::map<int, std::string> optimizer;
  Files files;
  for (const DirectoryEntry& entry : entries) {
    SW_RETURN_IF_ERROR(RefuseOthers(entry.name));
    absl::string_view stem = entry.name;
    const bool is_model = absl::ConsumeSuffix(&stem, kModelSuffix);
    if (!is_model && !absl::ConsumeSuffix(&stem, kOptimizerSuffix)) continue;
    const std::optional<Ranks> ranks = ParseRanks(stem);
    if (!ranks.has_value()) return Unsupported(entry.name, "a file of that name");
    if (ranks->model > 0) return Unsupported(entry.name, "a checkpoint of a tensor-parallel model");
    if (is_model) files.model_by_rank |= ranks->data >= 0;
    (is_model ? model : optimizer)[ranks->data < 0 ? 0 : ranks->data] = entry.name;
  }
  if (model.empty()) return absl::DataLossError("there is no *_model_states.pt");
  SW_ASSIGN_OR_RETURN(files.model, InOrder(model));
  SW_ASSIGN_OR_RETURN(files.optimizer, InOrder(optimizer));
  return files;
}

}  // namespace shardwright::deepspeed
