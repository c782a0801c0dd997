#include "shardwright/core/tensor/source_sink.h"

#include <cstring>
#include <string>
#include <vector>

#include "shardwright/tests/testing/state_maker.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::Meta;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Rank 1's rows [2, 4) of "w" [4, 3], a scalar, nothing of "none", and "tied", an alias of "w".
class LocalTensorsTest : public ::testing::Test {
 protected:
  LocalTensorsTest() {
    for (size_t i = 0; i < w_.size(); ++i) w_[i] = static_cast<char>('a' + i);
    const TensorMeta w = Meta("w", DType::kUInt8, {4, 3});
    state_ = {{w, Box{{2, 0}, {2, 3}}, w_.data(), ""},
              {Meta("s", DType::kUInt8, {}), Box::Whole({}), &scalar_, ""},
              {Meta("none", DType::kUInt8, {4}), Box{{4}, {0}}, nullptr, ""},
              {Meta("tied", DType::kUInt8, {4, 3}), Box{{2, 0}, {2, 3}}, w_.data(), "w"}};
    tensors_ = std::make_unique<LocalTensors>(state_);
  }
  const TensorSource& source() const { return *tensors_; }
  TensorSink& sink() { return *tensors_; }

  std::string w_ = std::string(6, '\0');
  char scalar_ = 'z';
  LocalState state_;
  std::unique_ptr<LocalTensors> tensors_;
};

TEST_F(LocalTensorsTest, ReadsBoxesInGlobalCoordinates) {
  std::string out(2, '\0');
  ASSERT_THAT(source().Read("w", Box{{2, 1}, {2, 1}}, absl::MakeSpan(out)), IsOk());
  EXPECT_EQ(out, "be");
  ASSERT_THAT(source().Read("tied", Box{{3, 0}, {1, 2}}, absl::MakeSpan(out)), IsOk());
  EXPECT_EQ(out, "de");
  char scalar = 0;
  ASSERT_THAT(source().Read("s", Box::Whole({}), absl::MakeSpan(&scalar, 1)), IsOk());
  EXPECT_EQ(scalar, 'z');
}

TEST_F(LocalTensorsTest, WritesBoxes) {
  ASSERT_THAT(sink().Write("w", Box{{2, 0}, {2, 2}}, absl::string_view("1234")), IsOk());
  EXPECT_EQ(w_, "12c34f");
}

TEST_F(LocalTensorsTest, DirectOnlyWhereContiguousAndHeld) {
  EXPECT_EQ(source().Direct("w", Box{{3, 0}, {1, 3}}).data(), w_.data() + 3);
  EXPECT_EQ(sink().Direct("w", Box{{2, 0}, {2, 3}}).size(), 6u);
  EXPECT_EQ(sink().Direct("w", Box{{2, 1}, {1, 2}}).data(), w_.data() + 1);
  EXPECT_TRUE(source().Direct("w", Box{{2, 1}, {2, 1}}).empty());
  EXPECT_TRUE(source().Direct("w", Box{{1, 0}, {2, 3}}).empty());
  EXPECT_TRUE(source().Direct("w", Box{{2}, {1}}).empty());
  EXPECT_TRUE(source().Direct("none", Box{{0}, {1}}).empty());
  EXPECT_TRUE(source().Direct("nope", Box{{0}, {1}}).empty());
}

TEST_F(LocalTensorsTest, RefusalsNameTensorAndBox) {
  std::string out(3, '\0');
  EXPECT_THAT(source().Read("nope", Box{{0}, {3}}, absl::MakeSpan(out)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"nope\"")));
  EXPECT_THAT(source().Read("w", Box{{1, 0}, {1, 3}}, absl::MakeSpan(out)),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("\"w\""), HasSubstr("[2:4, 0:3]"))));
  EXPECT_THAT(source().Read("w", Box{{3, 0}, {2, 3}}, absl::MakeSpan(out)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(sink().Write("w", Box{{2, 0}, {1, 3}}, absl::string_view("12")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 bytes")));
}

TEST_F(LocalTensorsTest, EmptyBoxesAreLegalEverywhere) {
  EXPECT_THAT(source().Read("none", Box{{0}, {0}}, {}), IsOk());
  EXPECT_THAT(sink().Write("w", Box{{0, 0}, {0, 3}}, {}), IsOk());
}

}  // namespace
}  // namespace shardwright
