#include "shardwright/core/strategy/load_judgement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

TensorMeta Parameter(std::string name, Shape shape) {
  return {.name = std::move(name), .dtype = DType::kFloat32, .shape = std::move(shape)};
}

// A checkpoint with these tensors, one after the other in one file.
std::shared_ptr<const Manifest> ManifestOf(const std::vector<TensorMeta>& tensors) {
  ManifestData data;
  data.files.push_back({.path = "model.safetensors"});
  for (const TensorMeta& meta : tensors) {
    ShardMeta shard{.box = Box::Whole(meta.shape)};
    shard.offset_bytes = data.files[0].size_bytes;
    shard.length_bytes = static_cast<uint64_t>(meta.bytes());
    data.files[0].size_bytes += shard.length_bytes;
    data.tensors.push_back({.meta = meta, .shards = {shard}});
  }
  auto manifest = Manifest::Create(std::move(data));
  EXPECT_THAT(manifest, IsOk());
  return *std::move(manifest);
}

LocalState StateOf(const std::vector<TensorMeta>& tensors) {
  LocalState state;
  for (const TensorMeta& meta : tensors) state.push_back({.meta = meta, .box = Box::Whole(meta.shape)});
  return state;
}

std::vector<std::string> NamesOf(const std::vector<LoadTensor>& tensors) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const LoadTensor& tensor : tensors) names.push_back(tensor.target.name);
  return names;
}

struct Outcome {
  std::vector<absl::Status> statuses;
  std::vector<LoadJudgement> judgements;
};

Outcome JudgeOnRanks(const std::vector<LocalState>& states, const std::shared_ptr<const Manifest>& manifest,
                     bool strict) {
  Outcome outcome;
  outcome.judgements.resize(states.size());
  outcome.statuses = RunRanks(static_cast<int32_t>(states.size()), [&](CommGroups& groups) {
    const LoadView view(manifest);
    auto judgement = JudgeLoad(*groups.control, view, states[groups.rank()], {.strict = strict});
    if (judgement.ok()) outcome.judgements[groups.rank()] = *judgement;
    return judgement.status();
  });
  return outcome;
}

TEST(JudgeLoadTest, EqualRanksWithoutProblemsLoadEverything) {
  const std::vector<TensorMeta> tensors = {Parameter("a", {2, 3}), Parameter("b", {4})};
  const Outcome outcome =
      JudgeOnRanks({StateOf(tensors), StateOf(tensors), StateOf(tensors)}, ManifestOf(tensors), true);
  EXPECT_THAT(outcome.statuses, Each(IsOk()));
  for (const LoadJudgement& judgement : outcome.judgements) {
    EXPECT_THAT(judgement.problems, IsEmpty());
    EXPECT_THAT(NamesOf(judgement.tensors), ElementsAre("a", "b"));
  }
}

TEST(JudgeLoadTest, ProblemsOfAllRanksAreListedOnce) {
  const std::vector<TensorMeta> wanted = {Parameter("a", {2}), Parameter("new", {3})};
  const auto manifest = ManifestOf({Parameter("a", {2}), Parameter("old", {1})});
  const Outcome outcome = JudgeOnRanks({StateOf(wanted), StateOf(wanted)}, manifest, true);
  EXPECT_THAT(outcome.statuses, Each(IsOk()));
  for (const LoadJudgement& judgement : outcome.judgements) {
    EXPECT_THAT(judgement.problems, UnorderedElementsAre("missing: new", "unexpected: old"));
  }
}

TEST(JudgeLoadTest, ADefectOfOneRankReachesEveryRank) {
  const std::vector<TensorMeta> good = {Parameter("a", {2}), Parameter("b", {8}), Parameter("c", {1})};
  std::vector<TensorMeta> bad = good;
  bad[1].shape = {1};
  bad[2].dtype = DType::kBFloat16;
  const Outcome outcome = JudgeOnRanks({StateOf(good), StateOf(bad), StateOf(good)}, ManifestOf(good), true);
  EXPECT_THAT(outcome.statuses, Each(IsOk()));
  for (const LoadJudgement& judgement : outcome.judgements) {
    EXPECT_THAT(judgement.problems, ElementsAre("shape of b: checkpoint [8], model [1] (rank 1)",
                                                "dtype of c: checkpoint F32, model BF16 (rank 1)"));
  }
}

TEST(JudgeLoadTest, RanksThatShareAProblemAreNamedTogether) {
  const std::vector<TensorMeta> good = {Parameter("a", {2})};
  const std::vector<TensorMeta> bad = {Parameter("a", {2}), Parameter("z:3:", {2})};
  const Outcome outcome = JudgeOnRanks({StateOf(bad), StateOf(good), StateOf(bad)}, ManifestOf(good), true);
  for (const LoadJudgement& judgement : outcome.judgements) {
    EXPECT_THAT(judgement.problems, ElementsAre("missing: z:3: (ranks 0, 2)"));
  }
}

TEST(JudgeLoadTest, LenientRanksLoadOnlyWhatAllCan) {
  const std::vector<TensorMeta> good = {Parameter("a", {2}), Parameter("b", {8})};
  std::vector<TensorMeta> bad = good;
  bad[1].shape = {3};
  const Outcome outcome = JudgeOnRanks({StateOf(good), StateOf(bad)}, ManifestOf(good), false);
  EXPECT_THAT(outcome.statuses, Each(IsOk()));
  for (const LoadJudgement& judgement : outcome.judgements) {
    EXPECT_THAT(NamesOf(judgement.tensors), ElementsAre("a"));
    EXPECT_THAT(judgement.problems, ElementsAre("shape of b: checkpoint [8], model [3] (rank 1)"));
  }
}

TEST(JudgeLoadTest, RanksThatWantDifferentTensorsAreRefused) {
  const auto manifest = ManifestOf({Parameter("a", {2}), Parameter("b", {8})});
  const Outcome outcome = JudgeOnRanks(
      {StateOf({Parameter("a", {2}), Parameter("b", {8})}), StateOf({Parameter("a", {2})})}, manifest, false);
  EXPECT_THAT(outcome.statuses,
              Each(StatusIs(kInvalidArgument, AllOf(HasSubstr("ranks 0 and 1"), HasSubstr("same parameters")))));
}

TEST(JudgeLoadTest, AliasesLoadThroughTheirTarget) {
  LocalState state = StateOf({Parameter("wte", {2}), Parameter("head", {2})});
  state[1].alias_of = "wte";
  const Outcome outcome = JudgeOnRanks({state}, ManifestOf({Parameter("head", {2})}), true);
  EXPECT_THAT(outcome.judgements[0].problems, IsEmpty());
  EXPECT_THAT(NamesOf(outcome.judgements[0].tensors), ElementsAre("wte"));
}

TEST(CompareViewsTest, EqualEditsPass) {
  const auto manifest = ManifestOf({Parameter("a", {2})});
  EXPECT_THAT(RunRanks(3,
                       [&](CommGroups& groups) -> absl::Status {
                         LoadView view(manifest);
                         SW_RETURN_IF_ERROR(view.Rename("a", "b"));
                         return CompareViews(*groups.control, view);
                       }),
              Each(IsOk()));
}

TEST(CompareViewsTest, AnotherEditOnOneRankIsAnErrorOnAll) {
  const auto manifest = ManifestOf({Parameter("a", {2})});
  EXPECT_THAT(RunRanks(3,
                       [&](CommGroups& groups) -> absl::Status {
                         LoadView view(manifest);
                         if (groups.rank() == 2) {
                           SW_RETURN_IF_ERROR(view.Rename("a", "b"));
                         }
                         return CompareViews(*groups.control, view);
                       }),
              Each(StatusIs(kInvalidArgument, AllOf(HasSubstr("ranks 0 and 2"), HasSubstr("OnLoadCheckpoint")))));
}

}  // namespace
}  // namespace shardwright
