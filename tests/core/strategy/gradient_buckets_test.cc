#include "shardwright/core/strategy/gradient_buckets.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr auto kInBackward = GradientWatch::Tells::kInBackward;

at::Tensor Parameter(int64_t elements, double value, at::ScalarType type = at::kFloat) {
  return at::full({elements}, value, at::TensorOptions(type)).requires_grad_();
}

// A chain in which backward meets the parameters last to first.
std::vector<at::Tensor> Chain(int64_t length) {
  std::vector<at::Tensor> parameters;
  for (int64_t i = 0; i < length; ++i) parameters.push_back(Parameter(100, 1.0));
  return parameters;
}

at::Tensor Product(const std::vector<at::Tensor>& parameters, double input) {
  at::Tensor x = at::full({100}, input);
  for (const at::Tensor& parameter : parameters) x = x * parameter;
  return x.sum();
}

// Every element of each gradient.
void ExpectGradients(const std::vector<at::Tensor>& parameters, double value) {
  for (const at::Tensor& parameter : parameters) {
    EXPECT_TRUE(parameter.grad().equal(at::full({100}, value)))
        << parameter.grad()[0].item<double>() << ", want " << value;
  }
}

std::vector<absl::Status> OnRanks(int32_t size, const std::function<absl::Status(CommGroups& groups)>& fn) {
  return RunRanks(size, [&](CommGroups& groups) {
    at::set_num_threads(1);
    return fn(groups);
  });
}

TEST(GradientBucketsTest, AveragesOverRanksInSeveralReductions) {
  EXPECT_THAT(OnRanks(3,
                      [](CommGroups& groups) {
                        const auto parameters = Chain(6);
                        GradientBuckets buckets(parameters, 2 * 400, kInBackward, *groups.data);
                        EXPECT_EQ(buckets.count(), 3);
                        EXPECT_EQ(buckets.bytes(), 2400u);
                        for (int step = 0; step < 3; ++step) {
                          buckets.Zero();
                          buckets.Arm();
                          Product(parameters, groups.rank() * (step + 1)).backward();
                          const absl::Status finished = buckets.Finish();
                          if (!finished.ok()) return finished;
                          ExpectGradients(parameters, step + 1);  // mean of 0, 1, 2, times step + 1
                        }
                        EXPECT_EQ(groups.data->counters().all_reduces, 9);
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

TEST(GradientBucketsTest, TheFirstReductionIsUnderWayBeforeBackwardEnds) {
  EXPECT_THAT(
      OnRanks(2,
              [](CommGroups& groups) {
                const auto parameters = Chain(4);
                GradientBuckets buckets(parameters, 400, kInBackward, *groups.data);
                buckets.Zero();
                buckets.Arm();
                at::Tensor first_layer = at::full({100}, 1.0) * parameters[0];
                int64_t started = -1;
                // Backward gets here when only the first layer is left.
                first_layer.register_hook([&](const at::Tensor&) { started = groups.data->counters().all_reduces; });
                (first_layer * parameters[1] * parameters[2] * parameters[3]).sum().backward();
                EXPECT_GE(started, 2);
                EXPECT_LT(started, 4);
                EXPECT_EQ(buckets.started_in_backward(), 4);
                const absl::Status finished = buckets.Finish();
                ExpectGradients(parameters, 1);
                return finished;
              }),
      Each(IsOk()));
}

TEST(GradientBucketsTest, ParametersThatOneRankOrNoneUsesCountAsZeros) {
  EXPECT_THAT(OnRanks(2,
                      [](CommGroups& groups) {
                        const auto parameters = Chain(4);
                        GradientBuckets buckets(parameters, 400, kInBackward, *groups.data);
                        for (int step = 0; step < 2; ++step) {
                          buckets.Zero();
                          buckets.Arm();
                          // Parameter 3 (whose bucket is first) is used by rank 0 alone, parameter 1 by none.
                          std::vector<at::Tensor> used = {parameters[0], parameters[2]};
                          if (groups.rank() == 0) used.push_back(parameters[3]);
                          Product(used, 1).backward();
                          EXPECT_EQ(buckets.started_in_backward(), groups.rank() == 0 ? 2 : 0);
                          const absl::Status finished = buckets.Finish();
                          if (!finished.ok()) return finished;
                          ExpectGradients({parameters[0], parameters[2]}, 1);
                          ExpectGradients({parameters[3]}, 0.5);
                          ExpectGradients({parameters[1]}, 0);
                        }
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

TEST(GradientBucketsTest, EarlierMicroBatchesAccumulateWithoutCommunication) {
  EXPECT_THAT(OnRanks(2,
                      [](CommGroups& groups) {
                        const auto parameters = Chain(3);
                        GradientBuckets buckets(parameters, 1 << 20, kInBackward, *groups.data);
                        buckets.Zero();
                        Product(parameters, 1).backward();
                        // Reached by this micro-batch only.
                        Product({parameters[1]}, 10).backward();
                        EXPECT_EQ(groups.data->counters().all_reduces, 0);
                        buckets.Arm();
                        Product({parameters[0], parameters[2]}, groups.rank()).backward();
                        const absl::Status finished = buckets.Finish();
                        EXPECT_EQ(groups.data->counters().all_reduces, 1);
                        ExpectGradients({parameters[0], parameters[2]}, 1.5);
                        ExpectGradients({parameters[1]}, 11);
                        return finished;
                      }),
              Each(IsOk()));
}

TEST(GradientBucketsTest, GradientsThatTheModelReplacedComeHome) {
  EXPECT_THAT(OnRanks(2,
                      [](CommGroups& groups) {
                        const auto parameters = Chain(2);
                        GradientBuckets buckets(parameters, 1 << 20, kInBackward, *groups.data);
                        buckets.Zero();
                        buckets.Arm();
                        parameters[0].mutable_grad().reset();  // as zero_grad() does
                        Product(parameters, groups.rank()).backward();
                        const absl::Status finished = buckets.Finish();
                        ExpectGradients(parameters, 0.5);
                        return finished;
                      }),
              Each(IsOk()));
}

TEST(GradientBucketsTest, DtypesHaveBucketsOfTheirOwn) {
  EXPECT_THAT(
      OnRanks(2,
              [](CommGroups& groups) {
                const std::vector<at::Tensor> parameters = {Parameter(100, 1), Parameter(100, 1, at::kDouble),
                                                            Parameter(100, 1), Parameter(100, 1, at::kDouble)};
                GradientBuckets buckets(parameters, 1 << 20, kInBackward, *groups.data);
                EXPECT_EQ(buckets.count(), 2);
                buckets.Zero();
                buckets.Arm();
                (parameters[0] * parameters[1] * parameters[2] * parameters[3] * groups.rank()).sum().backward();
                const absl::Status finished = buckets.Finish();
                for (const at::Tensor& parameter : parameters) {
                  EXPECT_EQ(parameter.grad().scalar_type(), parameter.scalar_type());
                  EXPECT_EQ(parameter.grad().sum().item<double>(), 50);
                }
                return finished;
              }),
      Each(IsOk()));
}

TEST(GradientBucketsTest, AParameterLargerThanABucketHasOneAlone) {
  EXPECT_THAT(OnRanks(1,
                      [](CommGroups& groups) {
                        GradientBuckets buckets({Parameter(3, 1), Parameter(1000, 1), Parameter(3, 1)}, 64, kInBackward,
                                                *groups.data);
                        EXPECT_EQ(buckets.count(), 3);
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

TEST(GradientBucketsTest, AFailedRankEndsTheOthers) {
  const auto statuses = OnRanks(2, [](CommGroups& groups) {
    const auto parameters = Chain(4);
    GradientBuckets buckets(parameters, 400, kInBackward, *groups.data);
    buckets.Zero();
    buckets.Arm();
    if (groups.rank() == 1) return absl::InternalError("the loss is nan");
    Product(parameters, 1).backward();
    return buckets.Finish();
  });
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the loss is nan")));
}

TEST(GradientBucketsTest, GivesGradientsBackWhenDestroyed) {
  EXPECT_THAT(OnRanks(1,
                      [](CommGroups& groups) {
                        const auto parameters = Chain(2);
                        { const GradientBuckets buckets(parameters, 400, kInBackward, *groups.data); }
                        EXPECT_FALSE(parameters[0].grad().defined());
                        Product(parameters, 3).backward();
                        ExpectGradients(parameters, 3);
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

}  // namespace
}  // namespace shardwright
