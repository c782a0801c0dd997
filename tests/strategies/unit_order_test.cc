#include "shardwright/strategies/zero3/unit_order.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

void RunForward(UnitOrder& order, const std::vector<int>& units) {
  order.Begin();
  for (const int unit : units) order.Forward(unit);
}

TEST(UnitOrderTest, TheFirstPassKnowsNothingOfForward) {
  UnitOrder order;
  EXPECT_EQ(order.Begin(), std::nullopt);
  EXPECT_EQ(order.Forward(4), std::nullopt);
  EXPECT_FALSE(order.is_last());
  EXPECT_EQ(order.Forward(7), std::nullopt);
  EXPECT_FALSE(order.is_last());
  EXPECT_EQ(order.Backward(7), 4);
  EXPECT_EQ(order.Backward(4), std::nullopt);
}

TEST(UnitOrderTest, LaterPassesRunAhead) {
  UnitOrder order;
  RunForward(order, {2, 0, 1});
  EXPECT_EQ(order.Begin(), 2);
  EXPECT_EQ(order.Forward(2), 0);
  EXPECT_EQ(order.Forward(0), 1);
  EXPECT_FALSE(order.is_last());
  EXPECT_EQ(order.Forward(1), std::nullopt);
  EXPECT_TRUE(order.is_last());
  EXPECT_EQ(order.Backward(1), 0);
  EXPECT_EQ(order.Backward(0), 2);
  EXPECT_EQ(order.Backward(2), std::nullopt);
}

TEST(UnitOrderTest, APassThatDiffersStopsGuessing) {
  UnitOrder order;
  RunForward(order, {0, 1, 2});
  order.Begin();
  EXPECT_EQ(order.Forward(0), 1);
  EXPECT_EQ(order.Forward(2), std::nullopt);
  EXPECT_EQ(order.Forward(1), std::nullopt);
  EXPECT_FALSE(order.is_last());
  EXPECT_EQ(order.Begin(), 0);
  EXPECT_EQ(order.Forward(0), 2) << "the newest pass counts";
}

TEST(UnitOrderTest, AUnitThatRunsTwice) {
  UnitOrder order;
  RunForward(order, {0, 1, 0});
  order.Begin();
  EXPECT_EQ(order.Forward(0), 1);
  EXPECT_EQ(order.Forward(1), 0);
  EXPECT_EQ(order.Forward(0), std::nullopt);
  EXPECT_EQ(order.Backward(0), 1);
  EXPECT_EQ(order.Backward(1), 0);
  EXPECT_EQ(order.Backward(0), std::nullopt);
}

TEST(UnitOrderTest, NestedUnitsComeBackInAnotherOrder) {
  UnitOrder order;
  RunForward(order, {0, 1, 2});  // 2 inside 1
  EXPECT_EQ(order.Backward(1), 0);
  EXPECT_EQ(order.Backward(2), std::nullopt);
  EXPECT_EQ(order.Backward(0), std::nullopt);
}

TEST(UnitOrderTest, APassWithoutUnitsIsNoExample) {
  UnitOrder order;
  RunForward(order, {3, 4});
  RunForward(order, {});
  EXPECT_EQ(order.Begin(), 3);
}

}  // namespace
}  // namespace shardwright
