#include "shardwright/core/module/recompute.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>

#include <thread>

#include "shardwright/core/module/autocast.h"
#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/module/torch_random.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::StatusIs;

at::Tensor Leaf(const at::Tensor& values) {
  return values.clone().requires_grad_(true);
}

class RecomputeTest : public ::testing::Test {
 protected:
  RecomputeTest() { ReseedTorchRandom(1, 0, 0); }

  std::vector<at::Tensor> Layer(const std::vector<at::Tensor>& inputs) {
    ++calls_;
    const at::Tensor hidden = at::dropout(at::tanh(at::linear(inputs[0], weight_)), dropout_, true);
    return {at::linear(hidden, weight_), hidden.sum()};
  }

  // Gradients of the input and the weight.
  std::vector<at::Tensor> Gradients(bool recompute) {
    ReseedTorchRandom(1, 1, 0);
    weight_.mutable_grad().reset();
    at::Tensor input = Leaf(input_);
    const TensorFunction fn = [this](const std::vector<at::Tensor>& inputs) { return Layer(inputs); };
    const std::vector<at::Tensor> out = recompute ? Recompute(fn, {input}) : fn({input});
    after_forward_ = TorchRandomState();
    (out[0].pow(2).sum() + out[1] * 3).backward();
    return {input.grad(), weight_.grad().clone()};
  }

  at::Tensor weight_ = Leaf(at::randn({4, 4}));
  at::Tensor input_ = at::randn({3, 4});
  double dropout_ = 0;
  int calls_ = 0;
  Value::Map after_forward_;
};

TEST_F(RecomputeTest, GradientsAreBitEqualAndForwardRunsTwice) {
  const auto plain = Gradients(false);
  EXPECT_EQ(calls_, 1);
  const auto recomputed = Gradients(true);
  EXPECT_EQ(calls_, 3);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(at::equal(plain[i], recomputed[i])) << i;
}

TEST_F(RecomputeTest, DropsTheSameAndLeavesTheRandomStreamAlone) {
  dropout_ = 0.5;
  const auto plain = Gradients(false);
  const auto recomputed = Gradients(true);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(at::equal(plain[i], recomputed[i])) << i;
  EXPECT_EQ(TorchRandomState(), after_forward_);
}

TEST_F(RecomputeTest, ComputesInTheDTypeOfForward) {
  std::vector<at::ScalarType> types;
  const at::Tensor input = Leaf(input_);
  std::vector<at::Tensor> out;
  {
    const Autocast autocast(DType::kBFloat16);
    out = Recompute(
        [&](const std::vector<at::Tensor>& inputs) -> std::vector<at::Tensor> {
          const at::Tensor product = at::linear(inputs[0], weight_);
          types.push_back(product.scalar_type());
          return {product.to(at::kFloat)};
        },
        {input});
  }
  out[0].sum().backward();
  EXPECT_EQ(types, (std::vector<at::ScalarType>{at::kBFloat16, at::kBFloat16}));
  EXPECT_EQ(weight_.grad().scalar_type(), at::kFloat);
}

// As on a GPU, whose thread runs backward.
TEST_F(RecomputeTest, ComputesInTheDTypeOfForwardInAnyThread) {
  std::vector<at::ScalarType> types;
  std::vector<bool> caches;
  std::vector<at::Tensor> out;
  {
    const Autocast autocast(DType::kFloat16);
    out = Recompute(
        [&](const std::vector<at::Tensor>& inputs) -> std::vector<at::Tensor> {
          const at::Tensor product = at::linear(inputs[0], weight_);
          types.push_back(product.scalar_type());
          caches.push_back(at::autocast::is_autocast_cache_enabled());
          return {product.to(at::kFloat)};
        },
        {Leaf(input_)});
  }
  std::thread([&] { out[0].sum().backward(); }).join();
  EXPECT_EQ(types, (std::vector<at::ScalarType>{at::kHalf, at::kHalf}));
  EXPECT_EQ(caches, (std::vector<bool>{false, false}));
}

TEST_F(RecomputeTest, CastsWeightsAnewThatHaveChanged) {
  const auto gradient = [&](bool recompute) {
    weight_.mutable_grad().reset();
    const TensorFunction fn = [this](const std::vector<at::Tensor>& inputs) { return Layer(inputs); };
    std::vector<at::Tensor> out;
    {
      const Autocast autocast(DType::kBFloat16);
      out = recompute ? Recompute(fn, {input_}) : fn({input_});
    }
    out[0].pow(2).sum().backward();
    return weight_.grad().clone();
  };
  for (int step = 0; step < 3; ++step) {
    const at::Tensor recomputed = gradient(true);
    EXPECT_TRUE(at::equal(recomputed, gradient(false))) << step;
    c10::NoGradGuard no_grad;
    weight_.mul_(1.5);
  }
}

TEST_F(RecomputeTest, NestedAndWithInputsThatHaveNoGradient) {
  const at::Tensor input = Leaf(input_);
  const auto inner = [this](const std::vector<at::Tensor>& inputs) { return Layer(inputs); };
  const auto outer = [&](const std::vector<at::Tensor>& inputs) -> std::vector<at::Tensor> {
    return {Recompute(inner, {inputs[0]})[0] * inputs[1]};
  };
  const at::Tensor factor = at::randn({3, 4});
  Recompute(outer, {input, factor})[0].sum().backward();
  const at::Tensor nested = input.grad().clone(), weight = weight_.grad().clone();
  input.mutable_grad().reset();
  weight_.mutable_grad().reset();
  (Layer({input})[0] * factor).sum().backward();
  EXPECT_TRUE(at::equal(nested, input.grad()));
  EXPECT_TRUE(at::equal(weight, weight_.grad()));
}

TEST_F(RecomputeTest, ReachesParametersWhereNoInputHasAGradient) {
  Recompute([this](const std::vector<at::Tensor>& inputs) { return Layer(inputs); }, {input_})[0].sum().backward();
  EXPECT_TRUE(weight_.grad().defined());
}

TEST_F(RecomputeTest, AnInputMayBeAnOutputAndIntegersPass) {
  const at::Tensor input = Leaf(input_), order = at::randn({3}).argsort();
  const auto out = Recompute([](const std::vector<at::Tensor>& inputs) { return inputs; }, {input, order});
  out[0].sum().backward();
  EXPECT_TRUE(at::equal(input.grad(), at::ones_like(input)));
  EXPECT_TRUE(at::equal(out[1], order));
  EXPECT_FALSE(out[1].requires_grad());
}

TEST_F(RecomputeTest, WithoutGradientsItIsAPlainCall) {
  c10::NoGradGuard no_grad;
  const auto out = Recompute([this](const std::vector<at::Tensor>& inputs) { return Layer(inputs); }, {Leaf(input_)});
  EXPECT_EQ(calls_, 1);
  EXPECT_FALSE(out[0].requires_grad());
}

TEST_F(RecomputeTest, AFailureInBackwardComesOut) {
  const auto out = Recompute(
      [this](const std::vector<at::Tensor>& inputs) {
        if (calls_ == 1) ThrowIfError(absl::UnavailableError("no more"));
        return Layer(inputs);
      },
      {Leaf(input_)});
  EXPECT_THAT(CallTorch([&] { out[0].sum().backward(); }), StatusIs(absl::StatusCode::kUnavailable, "no more"));
}

TEST(AutocastTest, LastsAsLongAsItLives) {
  const at::Tensor a = at::randn({2, 2});
  {
    const Autocast none(DType::kFloat32);
    EXPECT_EQ(at::linear(a, a).scalar_type(), at::kFloat);
  }
  {
    const Autocast autocast(DType::kBFloat16);
    EXPECT_EQ(at::linear(a, a).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(at::linear(a, a).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace shardwright
