#include "shardwright/tests/gpu/device_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::IsEmpty;

TEST(DeviceTrial, FindsNothingWrongOnTheCpu) {
  const ModelOptions tiny = {{"n_layer", "1"}, {"n_head", "1"}, {"n_embd", "8"}, {"context", "8"}, {"dropout", "0.1"}};
  for (const char* model : {"gpt", "moe_gpt"}) {
    for (const char* strategy : {"single_device", "zero3"}) {
      const auto storage = MakeMemoryStorage();
      SW_ASSERT_OK_AND_ASSIGN(const TrialResult result, RunTrial({.model = model,
                                                                  .options = tiny,
                                                                  .strategy = strategy,
                                                                  .compute_dtype = DType::kBFloat16,
                                                                  .samples = 2,
                                                                  .steps = 2},
                                                                 {}, *storage, "trial"));
      EXPECT_THAT(result.problems, IsEmpty()) << model << " " << strategy;
      EXPECT_GT(result.steps_per_second, 0);
      EXPECT_GT(result.save_bytes_per_second, 0);
      EXPECT_GT(result.load_bytes_per_second, 0);
      EXPECT_GT(result.transient_bytes, 0u);
      EXPECT_FALSE(Exists(*storage, "trial"));
    }
  }
}

}  // namespace
}  // namespace shardwright::testing
