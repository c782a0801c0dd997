#include "shardwright/core/strategy/shard_group.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/module/torch_module.h"
#include "shardwright/core/plan/placement.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

// Values of their own in every element.
at::Tensor Values(const Shape& shape, double first) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return at::arange(elements, at::TensorOptions(at::kFloat)).add(first).view(shape);
}

// As a strategy that shards at birth has it: the whole is freed.
ShardedParameter Born(const char* name, const Shape& shape, double first, const CommGroups& groups,
                      at::ScalarType computed = at::kFloat) {
  const TensorMeta meta{.name = name, .dtype = DType::kFloat32, .shape = shape};
  const at::Tensor values = Values(shape, first);
  const at::Tensor full = WithoutMemory(shape, at::TensorOptions(computed)).requires_grad_(true);
  const at::Tensor shard = RowsOfTensor(values, RowShardBox(meta, groups.rank(), groups.size())).clone();
  return {.meta = meta, .full = full, .shard = shard};
}

std::vector<absl::Status> OnRanks(int32_t size, const std::function<absl::Status(CommGroups& groups)>& fn) {
  return RunRanks(size, [&](CommGroups& groups) {
    at::set_num_threads(1);
    return fn(groups);
  });
}

const Shape kShapes[] = {{7, 3}, {2}, {}, {0, 4}, {1, 5}, {16, 2, 2}};

std::vector<ShardedParameter> BornInEveryShape(const CommGroups& groups, at::ScalarType computed = at::kFloat) {
  std::vector<ShardedParameter> parameters;
  for (const Shape& shape : kShapes) {
    parameters.push_back(Born("p", shape, 100.0 * static_cast<double>(parameters.size()), groups, computed));
  }
  return parameters;
}

class ShardGroupTest : public ::testing::TestWithParam<int32_t> {};

TEST_P(ShardGroupTest, GathersWhatWasShardedAndFreesIt) {
  EXPECT_THAT(OnRanks(GetParam(),
                      [](CommGroups& groups) -> absl::Status {
                        ShardGroup group(BornInEveryShape(groups), *groups.data);
                        for (int round = 0; round < 2; ++round) {
                          SW_RETURN_IF_ERROR(group.StartGather());
                          SW_RETURN_IF_ERROR(group.StartGather());  // is under way
                          SW_RETURN_IF_ERROR(group.FinishGather());
                          SW_RETURN_IF_ERROR(group.FinishGather());  // is there
                          for (size_t i = 0; i < group.parameters().size(); ++i) {
                            const at::Tensor want = Values(kShapes[i], 100.0 * static_cast<double>(i));
                            EXPECT_TRUE(at::equal(group.parameters()[i].full.detach(), want)) << i;
                          }
                          group.Free();
                          for (const ShardedParameter& parameter : group.parameters()) {
                            EXPECT_EQ(parameter.full.storage().nbytes(), 0u);
                            EXPECT_EQ(parameter.full.sizes().vec(), parameter.meta.shape);
                          }
                        }
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

TEST_P(ShardGroupTest, ComputesInAnotherDTypeFromShardsThatStay) {
  EXPECT_THAT(OnRanks(GetParam(),
                      [](CommGroups& groups) -> absl::Status {
                        ShardGroup group(BornInEveryShape(groups, at::kBFloat16), *groups.data);
                        SW_RETURN_IF_ERROR(group.StartGather());
                        SW_RETURN_IF_ERROR(group.FinishGather());
                        const at::Tensor want = Values(kShapes[5], 500).to(at::kBFloat16);
                        EXPECT_TRUE(at::equal(group.parameters()[5].full.detach(), want));
                        EXPECT_EQ(group.parameters()[5].shard.scalar_type(), at::kFloat);
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

// What autograd saved of a parameter is there again when the parameter is.
TEST_P(ShardGroupTest, BackwardUsesWhatWasGatheredAnew) {
  EXPECT_THAT(OnRanks(GetParam(),
                      [](CommGroups& groups) -> absl::Status {
                        ShardGroup group({Born("p", {4, 3}, 1, groups)}, *groups.data);
                        SW_RETURN_IF_ERROR(group.StartGather());
                        SW_RETURN_IF_ERROR(group.FinishGather());
                        const at::Tensor& full = group.parameters()[0].full;
                        const at::Tensor input = Values({2, 3}, 0).requires_grad_(true);
                        const at::Tensor out = input.matmul(full.t());
                        group.Free();
                        SW_RETURN_IF_ERROR(group.StartGather());
                        SW_RETURN_IF_ERROR(group.FinishGather());
                        out.sum().backward();
                        EXPECT_TRUE(at::equal(input.grad()[0], Values({4, 3}, 1).sum(0)));
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

TEST_P(ShardGroupTest, ReducesGradientsToShardsOverMicroBatches) {
  EXPECT_THAT(OnRanks(GetParam(),
                      [](CommGroups& groups) -> absl::Status {
                        ShardGroup group(BornInEveryShape(groups), *groups.data);
                        group.ZeroGradients();
                        for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
                          for (const ShardedParameter& parameter : group.parameters()) {
                            if (&parameter == &group.parameters()[0] && micro_batch == 1) continue;  // unused: zero
                            parameter.full.mutable_grad() = at::zeros(parameter.full.sizes()).add(groups.rank() + 1);
                          }
                          SW_RETURN_IF_ERROR(group.StartReduce());
                          SW_RETURN_IF_ERROR(group.FinishReduce());
                          EXPECT_FALSE(group.parameters()[1].full.grad().defined()) << "whole gradients are freed";
                        }
                        group.MeanGradients();
                        const double mean = (groups.size() + 1) / 2.0;
                        for (size_t i = 0; i < group.parameters().size(); ++i) {
                          const at::Tensor& shard = group.parameters()[i].shard;
                          if (shard.numel() == 0) continue;
                          EXPECT_TRUE(at::equal(shard.grad(), at::full_like(shard, i == 0 ? mean : 2 * mean))) << i;
                        }
                        group.DropGradients();
                        EXPECT_FALSE(group.parameters()[5].shard.grad().defined());
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

TEST_P(ShardGroupTest, AStepThatWasGivenUpLeavesNothingBehind) {
  EXPECT_THAT(OnRanks(GetParam(),
                      [](CommGroups& groups) -> absl::Status {
                        ShardGroup group({Born("p", {4, 3}, 1, groups)}, *groups.data);
                        SW_RETURN_IF_ERROR(group.StartGather());
                        group.Free();
                        group.ZeroGradients();
                        SW_RETURN_IF_ERROR(group.StartReduce());
                        group.ZeroGradients();
                        SW_RETURN_IF_ERROR(group.StartReduce());
                        SW_RETURN_IF_ERROR(group.FinishReduce());
                        SW_RETURN_IF_ERROR(group.StartGather());
                        SW_RETURN_IF_ERROR(group.FinishGather());
                        EXPECT_TRUE(at::equal(group.parameters()[0].full.detach(), Values({4, 3}, 1)));
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardGroupTest, ::testing::Values(1, 2, 3, 5));

TEST(ShardGroupsTest, OneGroupPerDTypeAndOneForFrozenParameters) {
  EXPECT_THAT(OnRanks(1,
                      [](CommGroups& groups) {
                        std::vector<ShardedParameter> parameters = {
                            Born("a", {2}, 0, groups), Born("b", {2}, 0, groups, at::kBFloat16),
                            Born("c", {2}, 0, groups), Born("d", {2}, 0, groups)};
                        parameters[2].meta.trainable = false;
                        const auto made = MakeShardGroups(parameters, *groups.data);
                        EXPECT_EQ(made.size(), 3u);
                        EXPECT_EQ(made[0]->parameters().size(), 2u);
                        EXPECT_FALSE(made[2]->trainable());
                        return absl::OkStatus();
                      }),
              Each(IsOk()));
}

TEST(CheckShardableTest, ParametersOwnTheirMemory) {
  const at::Tensor base = Values({4, 2}, 0);
  EXPECT_THAT(CheckShardable(base), IsOk());
  EXPECT_THAT(CheckShardable(at::zeros({})), IsOk());
  EXPECT_THAT(CheckShardable(base.narrow(0, 1, 2)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2, 2]")));
  EXPECT_THAT(CheckShardable(base.narrow(0, 0, 2)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shares")));
  EXPECT_THAT(CheckShardable(base.t()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not contiguous")));
}

}  // namespace
}  // namespace shardwright
