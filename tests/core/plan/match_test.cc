#include "shardwright/core/plan/match.h"

#include "absl/strings/str_cat.h"
#include "shardwright/tests/testing/state_maker.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::Meta;
using ::shardwright::testing::StateMeta;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A checkpoint of these tensors; pairs (name, target) are aliases.
LoadView View(std::vector<TensorMeta> tensors, std::vector<std::pair<std::string, std::string>> aliases = {}) {
  ManifestData data;
  uint64_t end = 0;
  for (const TensorMeta& meta : tensors) {
    TensorEntry entry{meta, "", {}};
    const auto bytes = static_cast<uint64_t>(meta.bytes());
    const ContentHash hash = bytes > 0 ? ContentHash{1, 1} : ContentHash{};
    entry.shards.push_back(
        ShardMeta{Box::Whole(meta.shape), 0, end, bytes, std::vector<uint32_t>(bytes > 0 ? 1 : 0, 1), hash});
    end += bytes;
    data.tensors.push_back(entry);
    for (const auto& [alias, target] : aliases) {
      if (target != meta.name) continue;
      TensorEntry tied{meta, target, {}};
      tied.meta.name = alias;
      data.tensors.push_back(tied);
    }
  }
  std::sort(data.tensors.begin(), data.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.meta.name < b.meta.name; });
  data.files.push_back(FileMeta{"model.safetensors", end, 0, 0});
  return LoadView(*Manifest::Create(std::move(data)));
}

std::vector<std::string> Sources(const MatchResult& result) {
  std::vector<std::string> sources;
  for (const LoadTensor& tensor : result.tensors) {
    sources.push_back(absl::StrCat(tensor.target.name, " <- ", tensor.source.source));
  }
  return sources;
}

TEST(MatchTest, AllDifferencesAtOnce) {
  const LoadView view = View({Meta("a", DType::kFloat32, {4}), Meta("d", DType::kFloat32, {4}),
                              Meta("e", DType::kFloat32, {1}), Meta("x", DType::kFloat32, {2})});
  const MatchResult result = MatchTensors(view,
                                          {Meta("a", DType::kFloat32, {4}), Meta("m", DType::kFloat32, {4}),
                                           Meta("d", DType::kBFloat16, {4}), Meta("e", DType::kFloat32, {8})},
                                          {}, {});
  EXPECT_THAT(Sources(result), ElementsAre("a <- a"));
  EXPECT_THAT(result.problems, ElementsAre("missing: m", "dtype of d: checkpoint F32, model BF16",
                                           "shape of e: checkpoint [1], model [8]", "unexpected: x"));
}

TEST(MatchTest, CastsByPolicyButNotOptimizerState) {
  const LoadView view = View({Meta("a", DType::kFloat32, {4}), Meta("i", DType::kInt64, {4}),
                              StateMeta("a", "exp_avg", DType::kFloat32, {4})});
  const std::vector<TensorMeta> wanted = {Meta("a", DType::kBFloat16, {4}), Meta("i", DType::kFloat32, {4}),
                                          StateMeta("a", "exp_avg", DType::kBFloat16, {4})};
  const MatchResult result = MatchTensors(view, wanted, {}, {.allow_dtype_cast = true});
  ASSERT_EQ(result.tensors.size(), 1u);
  EXPECT_EQ(result.tensors[0].source.meta.dtype, DType::kBFloat16);
  EXPECT_EQ(result.tensors[0].source.stored_dtype, DType::kFloat32);
  EXPECT_THAT(result.problems, ElementsAre("dtype of i: checkpoint I64, model F32",
                                           "dtype of optimizer.0.state.a.exp_avg: checkpoint F32, model BF16"));
}

TEST(MatchTest, AnEditedViewIsWhatIsJudged) {
  LoadView view = View({Meta("old", DType::kFloat32, {4}), StateMeta("old", "exp_avg", DType::kFloat32, {4})});
  ASSERT_THAT(view.Rename("old", "new"), IsOk());
  ASSERT_THAT(view.Cast("new", DType::kFloat16), IsOk());
  const MatchResult result = MatchTensors(
      view, {Meta("new", DType::kFloat16, {4}), StateMeta("new", "exp_avg", DType::kFloat32, {4})}, {}, {});
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(Sources(result),
              ElementsAre("new <- old", "optimizer.0.state.new.exp_avg <- optimizer.0.state.old.exp_avg"));
}

TEST(MatchTest, WithoutTheOptimizerItsTensorsDoNotCount) {
  const LoadView view = View({Meta("a", DType::kFloat32, {4}), StateMeta("a", "exp_avg", DType::kFloat32, {4})});
  const MatchResult result =
      MatchTensors(view, {Meta("a", DType::kFloat32, {4}), StateMeta("a", "momentum", DType::kFloat32, {4})}, {},
                   {.load_optimizer = false});
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_EQ(result.tensors.size(), 1u);
}

TEST(MatchTest, TiedIntoTiedUnderEitherName) {
  const LoadView view =
      View({Meta("head", DType::kFloat32, {4}), StateMeta("head", "exp_avg", DType::kFloat32, {4})}, {{"wte", "head"}});
  const MatchResult result =
      MatchTensors(view, {Meta("wte", DType::kFloat32, {4}), StateMeta("wte", "exp_avg", DType::kFloat32, {4})},
                   {{"head", "wte"}}, {});
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(Sources(result),
              ElementsAre("wte <- head", "optimizer.0.state.wte.exp_avg <- optimizer.0.state.head.exp_avg"));
}

TEST(MatchTest, TiedIntoUntiedLoadsBothFromTheOne) {
  const LoadView view =
      View({Meta("wte", DType::kFloat32, {4}), StateMeta("wte", "exp_avg", DType::kFloat32, {4})}, {{"head", "wte"}});
  const MatchResult result = MatchTensors(
      view,
      {Meta("head", DType::kFloat32, {4}), Meta("wte", DType::kFloat32, {4}),
       StateMeta("head", "exp_avg", DType::kFloat32, {4}), StateMeta("wte", "exp_avg", DType::kFloat32, {4})},
      {}, {});
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(Sources(result), ElementsAre("head <- wte", "wte <- wte",
                                           "optimizer.0.state.head.exp_avg <- optimizer.0.state.wte.exp_avg",
                                           "optimizer.0.state.wte.exp_avg <- optimizer.0.state.wte.exp_avg"));
}

TEST(MatchTest, UntiedIntoTiedTakesTheTarget) {
  const LoadView view =
      View({Meta("wte", DType::kFloat32, {4}), Meta("head", DType::kFloat32, {4}),
            StateMeta("head", "exp_avg", DType::kFloat32, {4}), StateMeta("wte", "exp_avg", DType::kFloat32, {4})});
  const MatchResult result =
      MatchTensors(view, {Meta("wte", DType::kFloat32, {4}), StateMeta("wte", "exp_avg", DType::kFloat32, {4})},
                   {{"head", "wte"}}, {});
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(Sources(result),
              ElementsAre("wte <- wte", "optimizer.0.state.wte.exp_avg <- optimizer.0.state.wte.exp_avg"));
}

TEST(MatchTest, OnlyTheAliasIsStored) {
  const MatchResult result = MatchTensors(View({Meta("head", DType::kFloat32, {4})}),
                                          {Meta("wte", DType::kFloat32, {4})}, {{"head", "wte"}}, {});
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(Sources(result), ElementsAre("wte <- head"));
}

TEST(MatchTest, StateIsFoundByItsFieldsUnderAnyKey) {
  TensorMeta foreign = StateMeta("w", "exp_avg", DType::kFloat32, {4});
  foreign.name = "opt/moment1/w";
  const MatchResult result =
      MatchTensors(View({Meta("w", DType::kFloat32, {4}), foreign}),
                   {Meta("w", DType::kFloat32, {4}), StateMeta("w", "exp_avg", DType::kFloat32, {4})}, {}, {});
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_EQ(result.tensors.size(), 2u);
}

TEST(MatchTest, EmptyTensorsAreNeverTakenForEachOther) {
  const LoadView view =
      View({Meta("a", DType::kFloat32, {0}), Meta("b", DType::kFloat32, {0}), Meta("c", DType::kFloat32, {0})});
  const MatchResult result = MatchTensors(
      view, {Meta("a", DType::kFloat32, {0}), Meta("b", DType::kFloat32, {0}), Meta("c", DType::kFloat32, {0})}, {},
      {});
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(Sources(result), ElementsAre("a <- a", "b <- b", "c <- c"));
}

TEST(ProblemsToStatusTest, GroupsCountsAndCaps) {
  std::vector<std::string> problems;
  for (int i = 0; i < 30; ++i) problems.push_back(absl::StrCat("missing: w", i));
  problems.push_back("shape of e: checkpoint [1], model [8]");
  problems.push_back("unexpected: x");
  EXPECT_THAT(ProblemsToStatus(problems),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("32 differences"), HasSubstr("30 missing"), HasSubstr("missing: w19"),
                             Not(HasSubstr("missing: w20")), HasSubstr("and 10 more"), HasSubstr("1 of another shape"),
                             HasSubstr("unexpected: x"), HasSubstr("OnLoadCheckpoint"))));
  EXPECT_THAT(ProblemsToStatus({}), IsOk());
  EXPECT_THAT(ProblemsToStatus({"rank 1: dtype of a: checkpoint F32, model F16"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 of another dtype")));
}

}  // namespace
}  // namespace shardwright
