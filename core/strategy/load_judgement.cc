#include "shardwright/core/strategy/load_judgement.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

// "3:abc0:" - netstrings without the comma: any bytes may be in a name.
std::string Pack(const std::vector<std::string>& texts) {
  std::string packed;
  for (const std::string& text : texts) absl::StrAppend(&packed, text.size(), ":", text);
  return packed;
}

// Messages come from our own ranks, so a bad one is our own bug.
std::vector<std::string> Unpack(absl::string_view packed) {
  std::vector<std::string> texts;
  while (!packed.empty()) {
    const size_t colon = packed.find(':');
    uint64_t length = 0;
    SW_CHECK(colon != absl::string_view::npos && absl::SimpleAtoi(packed.substr(0, colon), &length));
    packed.remove_prefix(colon + 1);
    SW_CHECK(length <= packed.size());
    texts.emplace_back(packed.substr(0, length));
    packed.remove_prefix(length);
  }
  return texts;
}

// The lists of all ranks; index: rank.
absl::StatusOr<std::vector<std::vector<std::string>>> Exchange(Communicator& comm,
                                                               const std::vector<std::string>& mine) {
  SW_ASSIGN_OR_RETURN(const std::vector<std::string> messages, comm.AllGatherBytes(Pack(mine)));
  std::vector<std::vector<std::string>> lists;
  lists.reserve(messages.size());
  for (const std::string& message : messages) lists.push_back(Unpack(message));
  return lists;
}

// The lowest rank whose message differs from rank 0's; nullopt if all are equal.
std::optional<size_t> FirstDifferent(const std::vector<std::string>& messages) {
  for (size_t rank = 1; rank < messages.size(); ++rank) {
    if (messages[rank] != messages[0]) return rank;
  }
  return std::nullopt;
}

// In the order first met. A problem of all ranks stands for itself.
std::vector<std::string> MergeProblems(const std::vector<std::vector<std::string>>& by_rank) {
  std::vector<std::string> order;
  absl::flat_hash_map<std::string, std::vector<size_t>> ranks_of;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const std::string& problem : by_rank[rank]) {
      std::vector<size_t>& ranks = ranks_of[problem];
      if (ranks.empty()) order.push_back(problem);
      ranks.push_back(rank);
    }
  }
  for (std::string& problem : order) {
    const std::vector<size_t>& ranks = ranks_of[problem];
    if (ranks.size() == by_rank.size()) continue;
    absl::StrAppend(&problem, ranks.size() == 1 ? " (rank " : " (ranks ", absl::StrJoin(ranks, ", "), ")");
  }
  return order;
}

MatchResult Match(const LoadView& view, const LocalState& state, const MatchOptions& options,
                  std::vector<std::string>& unmatched) {
  std::vector<TensorMeta> wanted;
  std::vector<std::pair<std::string, std::string>> aliases;
  for (const LocalTensor& tensor : state) {
    if (!tensor.alias_of.empty()) {
      aliases.emplace_back(tensor.meta.name, tensor.alias_of);
    } else if (options.load_optimizer || tensor.meta.role != Role::kOptimizer) {
      wanted.push_back(tensor.meta);
    }
  }
  MatchResult result = MatchTensors(view, wanted, aliases, options);
  absl::flat_hash_set<absl::string_view> matched;
  for (const LoadTensor& tensor : result.tensors) matched.insert(tensor.target.name);
  for (const TensorMeta& meta : wanted) {
    if (!matched.contains(meta.name)) unmatched.push_back(meta.name);
  }
  return result;
}

// Everything that a plan is made of, but for what the (compared) view says.
std::string Fingerprint(const std::vector<LoadTensor>& tensors) {
  std::string text;
  for (const LoadTensor& tensor : tensors) {
    absl::StrAppend(&text, Pack({tensor.target.name, ShapeToString(tensor.target.shape), tensor.source.meta.name}),
                    DTypeName(tensor.target.dtype), ";");
  }
  return HashContent(absl::MakeConstSpan(text)).ToString();
}

}  // namespace

absl::Status CompareViews(Communicator& comm, const LoadView& view) {
  SW_ASSIGN_OR_RETURN(const std::vector<std::string> fingerprints, comm.AllGatherBytes(view.Fingerprint().ToString()));
  const std::optional<size_t> different = FirstDifferent(fingerprints);
  if (!different.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "after OnLoadCheckpoint ranks 0 and ", *different,
      " see different checkpoints: the hook must make the same edits on every rank, and every rank must read "
      "the same manifest"));
}

absl::StatusOr<LoadJudgement> JudgeLoad(Communicator& comm, const LoadView& view, const LocalState& state,
                                        const MatchOptions& options) {
  std::vector<std::string> unmatched;
  MatchResult mine = Match(view, state, options, unmatched);
  SW_ASSIGN_OR_RETURN(const auto problems, Exchange(comm, mine.problems));
  SW_ASSIGN_OR_RETURN(const auto unmatched_by_rank, Exchange(comm, unmatched));

  absl::flat_hash_set<absl::string_view> dropped;
  for (const auto& names : unmatched_by_rank) dropped.insert(names.begin(), names.end());
  LoadJudgement judgement;
  judgement.problems = MergeProblems(problems);
  for (LoadTensor& tensor : mine.tensors) {
    if (!dropped.contains(tensor.target.name)) judgement.tensors.push_back(std::move(tensor));
  }
  // Problems come first: they say more than that something differs.
  if (options.strict && !judgement.problems.empty()) return judgement;
  SW_ASSIGN_OR_RETURN(const std::vector<std::string> fingerprints, comm.AllGatherBytes(Fingerprint(judgement.tensors)));
  if (const std::optional<size_t> different = FirstDifferent(fingerprints); different.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks 0 and ", *different,
                     " want different tensors of the checkpoint: the model must have the same "
                     "parameters, shapes and dtypes on every rank"));
  }
  return judgement;
}

}  // namespace shardwright
