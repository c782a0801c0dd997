#include "shardwright/core/base/nearest.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

TEST(NearestName, FindsTheLeastEdited) {
  EXPECT_EQ(NearestName("zero4", {"ddp", "zero1", "zero3"}), "zero1");
  EXPECT_EQ(NearestName("single_devise", {"ddp", "single_device"}), "single_device");
  EXPECT_EQ(NearestName("sve", {"load", "save", "verify"}), "save");
  EXPECT_EQ(NearestName("verrify", {"load", "save", "verify"}), "verify");
  EXPECT_EQ(NearestName("ddp", {"ddq", "ddp"}), "ddp");
}

TEST(NearestName, IgnoresCase) {
  EXPECT_EQ(NearestName("DDP", {"zero3", "ddp"}), "ddp");
}

TEST(NearestName, IsEmptyWhereNothingIsNear) {
  EXPECT_EQ(NearestName("fsdp", {"single_device", "zero3"}), "");
  EXPECT_EQ(NearestName("abc", {"axx"}), "");
  EXPECT_EQ(NearestName("x", {"y"}), "");
  EXPECT_EQ(NearestName("anything", {}), "");
  EXPECT_EQ(NearestName("", {"a"}), "");
}

TEST(NearestName, AThirdOfTheLettersMayDiffer) {
  EXPECT_EQ(NearestName("abcdxx", {"abcdef"}), "abcdef");
  EXPECT_EQ(NearestName("abcxxx", {"abcdef"}), "");
}

}  // namespace
}  // namespace shardwright
