#include "shardwright/core/plan/load_view.h"

#include "absl/strings/str_cat.h"
#include "shardwright/tests/testing/state_maker.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::Meta;
using ::shardwright::testing::StateMeta;
using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
constexpr absl::StatusCode kExists = absl::StatusCode::kAlreadyExists;
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

TensorEntry Entry(TensorMeta meta, uint64_t offset) {
  const auto bytes = static_cast<uint64_t>(meta.bytes());
  ShardMeta shard{Box::Whole(meta.shape), 0, offset, bytes, {1}, {1, 1}};
  return TensorEntry{std::move(meta), "", {std::move(shard)}};
}

// a and its state, b an alias of a, c.
std::shared_ptr<const Manifest> SmallManifest(int64_t step = 1) {
  ManifestData data;
  data.progress.step = step;
  data.files.push_back(FileMeta{"model.safetensors", 64, 0, 0});
  data.tensors.push_back(Entry(Meta("a", DType::kFloat32, {4}), 0));
  data.tensors.push_back(TensorEntry{Meta("b", DType::kFloat32, {4}), "a", {}});
  data.tensors.push_back(Entry(Meta("c", DType::kInt64, {2}), 16));
  data.tensors.push_back(Entry(StateMeta("a", "exp_avg", DType::kFloat32, {4}), 32));
  return *Manifest::Create(std::move(data));
}

TEST(LoadViewTest, ShowsTheCheckpointWithAliasesResolved) {
  const LoadView view(SmallManifest());
  EXPECT_EQ(view.tensors().size(), 4u);
  EXPECT_EQ(view.Find("b")->source, "a");
  EXPECT_EQ(view.Find("b")->meta.name, "b");
  EXPECT_EQ(view.Find("c")->stored_dtype, DType::kInt64);
  EXPECT_EQ(view.Find("d"), nullptr);
}

TEST(LoadViewTest, RenameMovesATensorAndItsState) {
  LoadView view(SmallManifest());
  ASSERT_THAT(view.Rename("a", "z"), IsOk());
  EXPECT_EQ(view.Find("a"), nullptr);
  EXPECT_EQ(view.Find("z")->source, "a");
  EXPECT_EQ(view.Find("z")->meta.name, "z");
  const ViewTensor* state = view.Find("optimizer.0.state.z.exp_avg");
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->meta.optimizer.parameter, "z");
  EXPECT_EQ(state->source, "optimizer.0.state.a.exp_avg");
  ASSERT_THAT(view.Rename("z", "a"), IsOk());
  EXPECT_EQ(view.Fingerprint(), LoadView(SmallManifest()).Fingerprint());
}

TEST(LoadViewTest, EditsThatCannotBeLeaveTheViewAsItWas) {
  LoadView view(SmallManifest());
  const ContentHash before = view.Fingerprint();
  EXPECT_THAT(view.Rename("nope", "z"), StatusIs(kNotFound, HasSubstr("nope")));
  EXPECT_THAT(view.Rename("a", "c"), StatusIs(kExists, HasSubstr("\"c\"")));
  EXPECT_THAT(view.Rename("a", absl::string_view("")), StatusIs(kInvalid));
  EXPECT_THAT(view.Drop("nope"), StatusIs(kNotFound));
  EXPECT_THAT(view.Cast("nope", DType::kFloat32), StatusIs(kNotFound));
  EXPECT_THAT(view.Cast("c", DType::kFloat32), StatusIs(kInvalid, HasSubstr("I64")));
  EXPECT_THAT(view.Add(Meta("a", DType::kUInt8, {1}), absl::string_view("x")), StatusIs(kExists));
  EXPECT_THAT(view.Add(Meta("d", DType::kUInt8, {2}), absl::string_view("x")),
              StatusIs(kInvalid, HasSubstr("2 bytes, got 1")));
  EXPECT_THAT(view.Add(Meta("d", DType::kUInt8, {-2}), absl::string_view("")), StatusIs(kInvalid));
  const DeriveFunction fn = [](const auto&, absl::Span<char>) { return absl::OkStatus(); };
  EXPECT_THAT(view.Derive(Meta("d", DType::kUInt8, {2}), {"a", "nope"}, fn), StatusIs(kNotFound, HasSubstr("nope")));
  EXPECT_THAT(view.Derive(Meta("d", DType::kUInt8, {2}), {"a"}, nullptr), StatusIs(kInvalid));
  EXPECT_EQ(view.Fingerprint(), before);
}

TEST(LoadViewTest, ARenameWhoseStateHasNoRoomMovesNothing) {
  LoadView view(SmallManifest());
  ASSERT_THAT(view.Add(StateMeta("z", "exp_avg", DType::kUInt8, {1}), absl::string_view("x")), IsOk());
  const ContentHash before = view.Fingerprint();
  EXPECT_THAT(view.Rename("a", "z"), StatusIs(kExists, HasSubstr("optimizer.0.state.z.exp_avg")));
  EXPECT_EQ(view.Fingerprint(), before);
}

TEST(LoadViewTest, DropTakesTheStateAlong) {
  LoadView view(SmallManifest());
  ASSERT_THAT(view.Drop("a"), IsOk());
  EXPECT_EQ(view.tensors().size(), 2u);
  EXPECT_NE(view.Find("b"), nullptr);
}

TEST(LoadViewTest, CastAddAndDerive) {
  LoadView view(SmallManifest());
  ASSERT_THAT(view.Cast("a", DType::kBFloat16), IsOk());
  EXPECT_EQ(view.Find("a")->meta.dtype, DType::kBFloat16);
  EXPECT_EQ(view.Find("a")->stored_dtype, DType::kFloat32);
  ASSERT_THAT(view.Add(Meta("d", DType::kUInt8, {2}), absl::string_view("xy")), IsOk());
  EXPECT_EQ(view.Find("d")->added_bytes, absl::string_view("xy"));
  ASSERT_THAT(
      view.Derive(Meta("e", DType::kUInt8, {2}), {"a"}, [](const auto&, absl::Span<char>) { return absl::OkStatus(); }),
      IsOk());
  EXPECT_EQ(view.Find("e")->source, absl::string_view(""));
}

TEST(LoadViewTest, FingerprintsTellViewsApart) {
  std::vector<std::function<void(LoadView&)>> edits = {
      [](LoadView&) {},
      [](LoadView& v) { EXPECT_THAT(v.Rename("c", "d"), IsOk()); },
      [](LoadView& v) { EXPECT_THAT(v.Drop("c"), IsOk()); },
      [](LoadView& v) { EXPECT_THAT(v.Cast("a", DType::kFloat16), IsOk()); },
      [](LoadView& v) { EXPECT_THAT(v.Add(Meta("d", DType::kUInt8, {1}), absl::string_view("x")), IsOk()); },
      [](LoadView& v) { EXPECT_THAT(v.Add(Meta("d", DType::kUInt8, {1}), absl::string_view("y")), IsOk()); },
      [](LoadView& v) {
        EXPECT_THAT(v.Derive(Meta("d", DType::kUInt8, {1}), {"a"}, [](const auto&, auto) { return absl::OkStatus(); }),
                    IsOk());
      },
      [](LoadView& v) {
        EXPECT_THAT(v.Derive(Meta("d", DType::kUInt8, {1}), {"c"}, [](const auto&, auto) { return absl::OkStatus(); }),
                    IsOk());
      },
  };
  std::vector<std::string> seen;
  for (const auto& edit : edits) {
    LoadView one(SmallManifest()), two(SmallManifest());
    edit(one);
    edit(two);
    EXPECT_EQ(one.Fingerprint(), two.Fingerprint());
    EXPECT_EQ(std::count(seen.begin(), seen.end(), one.Fingerprint().ToString()), 0);
    seen.push_back(one.Fingerprint().ToString());
  }
  EXPECT_NE(LoadView(SmallManifest(1)).Fingerprint(), LoadView(SmallManifest(2)).Fingerprint());
}

TEST(IsCastableTest, PlainFloatsOnly) {
  EXPECT_TRUE(IsCastable(DType::kFloat16, DType::kFloat64));
  EXPECT_TRUE(IsCastable(DType::kFloat8E4M3, DType::kFloat8E4M3));
  EXPECT_FALSE(IsCastable(DType::kFloat8E4M3, DType::kFloat32));
  EXPECT_FALSE(IsCastable(DType::kInt32, DType::kFloat32));
}

}  // namespace
}  // namespace shardwright
