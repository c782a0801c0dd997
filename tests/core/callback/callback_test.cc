#include "shardwright/core/callback/callback.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

Action Merged(std::initializer_list<Action> actions) {
  Action merged;
  for (const Action& action : actions) merged.Merge(action);
  return merged;
}

TEST(ActionTest, NothingMergedIsNothingWished) {
  EXPECT_EQ(Merged({{}, {}}), Action{});
}

TEST(ActionTest, AnySaveSavesAndAnyStopStops) {
  EXPECT_EQ(Merged({{.save = true}, {}}), Action{.save = true});
  EXPECT_EQ(Merged({{}, {.save = true}}), Action{.save = true});
  EXPECT_EQ(Merged({{.stop = true}, {.save = true}}), (Action{.save = true, .stop = true}));
}

TEST(ActionTest, LinksAreKeptOnceInOrder) {
  EXPECT_EQ(Merged({{.links = {"best", "a"}}, {.links = {"a", "weekly", "best"}}}),
            (Action{.links = {"best", "a", "weekly"}}));
}

TEST(ActionTest, DifferentReasonsAreJoined) {
  EXPECT_EQ(Merged({{.stop = true, .stop_reason = "loss is flat"}, {.stop = true, .stop_reason = "out of time"}}),
            (Action{.stop = true, .stop_reason = "loss is flat; out of time"}));
  EXPECT_EQ(Merged({{.stop = true}, {.stop = true, .stop_reason = "x"}, {.stop = true, .stop_reason = "x"}}),
            (Action{.stop = true, .stop_reason = "x"}));
}

}  // namespace
}  // namespace shardwright
