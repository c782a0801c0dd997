#include "shardwright/callbacks/callbacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BuiltinCallbacksTest, EveryRowMakesTheCallbackOfItsName) {
  const CallbackTable table = BuiltinCallbacks();
  EXPECT_THAT(table.Names(), ElementsAre("model_checkpoint", "progress"));
  for (const auto& [name, make] : table.rows()) {
    CallbackOptions options;
    options.quiet = true;
    EXPECT_EQ(make(options)->name(), name);
  }
}

TEST(BuiltinCallbacksTest, AMisspeltNameIsAnsweredWithTheNearest) {
  EXPECT_THAT(BuiltinCallbacks().Find("progres"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean \"progress\"")));
}

}  // namespace
}  // namespace shardwright
