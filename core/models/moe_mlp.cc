#include "shardwright/core/models/moe_mlp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "shardwright/core/models/gpt_parts.h"

namespace shardwright {
namespace {

torch::nn::Linear MakeRouter(int64_t n_embd, int64_t n_expert) {
  torch::nn::Linear router(torch::nn::LinearOptions(n_embd, n_expert).bias(false));
  torch::NoGradGuard no_grad;
  router->weight.normal_(0.0, kInitialStd);
  return router;
}

std::vector<int64_t> ToVector(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU).contiguous();
  const auto* first = host.const_data_ptr<int64_t>();
  return {first, first + host.numel()};
}

// `counts`: [batch, n_expert], of choices.
at::Tensor BalanceLoss(const at::Tensor& probabilities, const at::Tensor& counts, int64_t top_k) {
  const int64_t length = probabilities.size(1), n_expert = probabilities.size(2);
  const at::Tensor of_choices = counts.to(at::kFloat) / static_cast<double>(length * top_k);
  return (of_choices * probabilities.mean(1)).sum(-1).mean() * static_cast<double>(n_expert);
}

}  // namespace

StackedLinearImpl::StackedLinearImpl(int64_t n_expert, int64_t in, int64_t out, double std) {
  weight_ = register_parameter("weight", at::empty({n_expert, in, out}).normal_(0.0, std));
  bias_ = register_parameter("bias", at::zeros({n_expert, out}));
}

std::vector<at::Tensor> StackedLinearImpl::forward(const std::vector<at::Tensor>& rows) {
  // Not select: its backward makes a gradient of the whole stack for every expert, that of unbind one for all.
  const std::vector<at::Tensor> weights = weight_.unbind(0), biases = bias_.unbind(0);
  std::vector<at::Tensor> results;
  for (size_t e = 0; e < rows.size(); ++e) results.push_back(at::addmm(biases[e], rows[e], weights[e]));
  return results;
}

MoeMlpImpl::MoeMlpImpl(const MoeShape& shape, double residual_std) : shape_(shape) {
  router_ = register_module("router", MakeRouter(shape.n_embd, shape.n_expert));
  c_fc_ = register_module("c_fc", StackedLinear(shape.n_expert, shape.n_embd, shape.hidden, kInitialStd));
  c_proj_ = register_module("c_proj", StackedLinear(shape.n_expert, shape.hidden, shape.n_embd, residual_std));
}

MoeMlpImpl::Output MoeMlpImpl::forward(const at::Tensor& x) {
  const at::Tensor probabilities = Route(x);
  auto [gates, choices] = at::topk(probabilities, shape_.top_k);
  // A lone gate stays as it is: made 1, it would leave the router nothing to learn from but the auxiliary loss.
  if (shape_.top_k > 1) gates = gates / gates.sum(-1, /*keepdim=*/true);
  const at::Tensor counts = at::one_hot(choices, shape_.n_expert).sum(at::IntArrayRef{1, 2});
  const at::Tensor results = RunExperts(x, choices, counts.sum(0));
  return {.x = (results * gates.unsqueeze(-1).to(results.scalar_type())).sum(2),
          .aux_loss = BalanceLoss(probabilities, counts, shape_.top_k)};
}

at::Tensor MoeMlpImpl::Route(const at::Tensor& x) {
  // In bfloat16 rounding would move tokens from expert to expert, so autocast is kept out.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return at::linear(x.to(at::kFloat), router_->weight.to(at::kFloat)).softmax(-1);
}

at::Tensor MoeMlpImpl::RunExperts(const at::Tensor& x, const at::Tensor& choices, const at::Tensor& counts) {
  const at::Tensor rows = x.unsqueeze(2).expand({-1, -1, shape_.top_k, -1}).reshape({-1, shape_.n_embd});
  const at::Tensor order = choices.flatten().argsort(/*stable=*/true);
  std::vector<at::Tensor> hidden = c_fc_(rows.index_select(0, order).split_with_sizes(ToVector(counts)));
  for (at::Tensor& of_expert : hidden) of_expert = at::gelu(of_expert, "tanh");
  const at::Tensor sorted = at::cat(c_proj_(hidden));
  return at::zeros_like(sorted).index_add(0, order, sorted).view({x.size(0), x.size(1), shape_.top_k, shape_.n_embd});
}

}  // namespace shardwright
