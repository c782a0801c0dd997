#include "shardwright/core/plan/placement.h"

#include <cstdint>
#include <limits>

#include "shardwright/tests/testing/state_maker.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::Meta;
using ::shardwright::testing::StateMeta;
using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;

TEST(PlacementTest, RowsTileAndDifferByAtMostOne) {
  for (int64_t rows : {0, 1, 2, 5, 64, 1001}) {
    for (int32_t world : {1, 2, 3, 5, 8, 64}) {
      const TensorMeta tensor = Meta("w", DType::kFloat32, {rows, 3});
      int64_t next = 0;
      for (int32_t rank = 0; rank < world; ++rank) {
        const Box box = RowShardBox(tensor, rank, world);
        EXPECT_EQ(box.offset, (std::vector<int64_t>{next, 0}));
        EXPECT_GE(box.size[0], rows / world);
        EXPECT_LE(box.size[0], (rows + world - 1) / world);
        EXPECT_EQ(box.size[1], 3);
        next += box.size[0];
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(PlacementTest, RowsOfHugeTensorsDoNotOverflow) {
  const int64_t rows = std::numeric_limits<int64_t>::max() / 2;
  const Box last = RowShardBox(Meta("w", DType::kUInt8, {rows}), 1023, 1024);
  EXPECT_EQ(last.offset[0] + last.size[0], rows);
}

TEST(PlacementTest, ScalarsAreWholeEverywhere) {
  EXPECT_EQ(RowShardBox(Meta("s", DType::kFloat32, {}), 2, 3), Box::Whole({}));
}

TEST(PlacementTest, RulesOfStrategies) {
  const TensorMeta parameter = Meta("w", DType::kFloat32, {4});
  const TensorMeta buffer = Meta("b", DType::kFloat32, {4}, Role::kBuffer);
  const TensorMeta state = StateMeta("w", "exp_avg", DType::kFloat32, {4});
  struct Case {
    const char* name;
    int64_t parameter_rows, buffer_rows, state_rows;  // of rank 1 of 2
  };
  for (const Case& c : {Case{"single_device", 4, 4, 4}, Case{"ddp", 4, 4, 4}, Case{"zero1", 4, 4, 2},
                        Case{"zero2", 4, 4, 2}, Case{"zero3", 2, 4, 2}}) {
    SW_ASSERT_OK_AND_ASSIGN(const PlacementRule rule, PlacementRules().Find(c.name));
    EXPECT_EQ(rule(parameter, 1, 2).size[0], c.parameter_rows) << c.name;
    EXPECT_EQ(rule(buffer, 1, 2).size[0], c.buffer_rows) << c.name;
    EXPECT_EQ(rule(state, 1, 2).size[0], c.state_rows) << c.name;
  }
}

TEST(PlacementTest, UnknownRuleNamesTheKnown) {
  EXPECT_THAT(PlacementRules().Find("zero4"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("zero3")));
}

TEST(PlacementTest, NodesHoldConsecutiveRanks) {
  const World world{10, 4};
  EXPECT_EQ(world.nodes(), 3);
  EXPECT_EQ(world.NodeOf(3), 0);
  EXPECT_EQ(world.NodeOf(9), 2);
}

}  // namespace
}  // namespace shardwright
