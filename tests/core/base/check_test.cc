#include "shardwright/core/base/check.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

TEST(SwCheck, PassesWhatHolds) {
  int evaluated = 0;
  SW_CHECK(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

TEST(SwCheckDeathTest, NamesTheBrokenInvariantAndItsPlace) {
  EXPECT_DEATH(SW_CHECK(2 + 2 == 5), "check_test.cc:[0-9]+: broken invariant: 2 \\+ 2 == 5");
}

TEST(SwCheck, IsOneStatement) {
  bool other = false;
  if (other)
    SW_CHECK(false);
  else
    other = true;
  EXPECT_TRUE(other);
}

}  // namespace
}  // namespace shardwright
