// FENCE: a mixture of experts in the place of a block's MLP: each token goes to the top_k experts that a router finds
// best for it.
//
//   x -- router --> probabilities -- top_k --> choices (which experts), gates (how much of each)
//   x -- a row for each choice, sorted by expert --> one matrix product per expert --> back in order, weighed by gates
//
// No expert has a capacity, so no token is dropped. The same input gives the same bits on every device: rows are moved
// by a permutation, so that no two additions meet.
#ifndef SHARDWRIGHT_CORE_MODELS_MOE_MLP_H_
#define SHARDWRIGHT_CORE_MODELS_MOE_MLP_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace shardwright {

// A linear layer per expert. Expert e has weight[e] of [in, out] and bias[e] of [out]; dim 0 is the expert, so that
// shards along it are whole experts.
class StackedLinearImpl : public torch::nn::Module {
 public:
  StackedLinearImpl(int64_t n_expert, int64_t in, int64_t out, double std);
  // Each expert's rows, none included -> its results. The gradient of an expert without rows is zero.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& rows);

 private:
  at::Tensor weight_, bias_;
};
TORCH_MODULE(StackedLinear);

struct MoeShape {
  int64_t n_embd = 0;
  int64_t n_expert = 0;
  int64_t top_k = 0;   // of n_expert
  int64_t hidden = 0;  // width of an expert's hidden layer
};

class MoeMlpImpl : public torch::nn::Module {
 public:
  // `residual_std`: where the layer that adds to the residual stream starts.
  MoeMlpImpl(const MoeShape& shape, double residual_std);

  struct Output {
    at::Tensor x;  // [batch, length, n_embd]
    // Scalar of float32: how unevenly the router loads the experts, 1 where it is even, up to n_expert / top_k. Switch
    // Transformer's loss, n_expert * sum over e of f_e * P_e (f: part of the choices, P: mean probability), of each
    // sample, then the mean. A sample at a time, so that it is a mean over samples as every loss is: a batch has the
    // same loss whole and in parts, on whatever ranks.
    at::Tensor aux_loss;
  };
  Output forward(const at::Tensor& x);

 private:
  // [batch, length, n_embd] -> [batch, length, n_expert]; float32.
  at::Tensor Route(const at::Tensor& x);
  // `choices` [batch, length, top_k], `counts` [n_expert] -> the chosen experts' results,
  // [batch, length, top_k, n_embd].
  at::Tensor RunExperts(const at::Tensor& x, const at::Tensor& choices, const at::Tensor& counts);

  MoeShape shape_;
  torch::nn::Linear router_{nullptr};
  StackedLinear c_fc_{nullptr}, c_proj_{nullptr};
};
TORCH_MODULE(MoeMlp);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODELS_MOE_MLP_H_
