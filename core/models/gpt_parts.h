// FENCE: what the GPTs of this folder are built of: layers, the way from bytes to tensors and back, optimizer groups.
//
// Layers initialise their own parameters from torch's default generator as soon as they are built, so that the random
// stream is the same whether a strategy then keeps all of them or a shard.
#ifndef SHARDWRIGHT_CORE_MODELS_GPT_PARTS_H_
#define SHARDWRIGHT_CORE_MODELS_GPT_PARTS_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/models/gpt_options.h"
#include "shardwright/core/module/module.h"
#include "shardwright/core/module/optimizer_spec.h"
#include "shardwright/core/module/torch_module.h"

namespace shardwright {

constexpr int64_t kVocabulary = 256;  // a token is a byte
constexpr double kInitialStd = 0.02;

// The start of what adds to the residual stream. Each block adds twice; the smaller start keeps the stream's variance
// independent of depth.
double ResidualStd(const GptConfig& config);

torch::nn::Linear MakeLinear(int64_t in, int64_t out, double std);
torch::nn::Embedding MakeEmbedding(int64_t count, int64_t n_embd);
torch::nn::LayerNorm MakeNorm(int64_t n_embd);

// Causal self-attention of n_head heads.
class AttentionImpl : public torch::nn::Module {
 public:
  explicit AttentionImpl(const GptConfig& config);
  // [batch, length, n_embd] -> the same.
  at::Tensor forward(const at::Tensor& x);

 private:
  int64_t n_head_;
  double dropout_;
  torch::nn::Linear c_attn_{nullptr}, c_proj_{nullptr};
};
TORCH_MODULE(Attention);

// Logits from the last hidden state. Tied: `weight` is the token embedding's own, registered here under a second name.
class LmHeadImpl : public torch::nn::Module {
 public:
  explicit LmHeadImpl(at::Tensor weight);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_;
};
TORCH_MODULE(LmHead);

// Weight decay is for the matrices that multiply; biases, norms and embeddings go without.
OptimizerSpec MakeGptOptimizer(const GptConfig& config, const std::vector<NamedTorchTensor>& tensors);

// Parameters of everything but the blocks' MLPs, for Describe.
int64_t CountParametersWithoutMlps(const GptConfig& config);

// [samples, sample_tokens - 1] each: a target is the token that follows its input.
struct InputsAndTargets {
  at::Tensor inputs;
  at::Tensor targets;
};
// On `device`, where the parameters are. Throws torch's ValueError unless the batch has as many tokens as it says.
InputsAndTargets SplitBatch(const Batch& batch, const at::Device& device);

// [batch, length] tokens -> [batch, length, n_embd]: embeddings of tokens and positions, added. Throws torch's errors
// for samples longer than the context and for tokens outside the vocabulary.
at::Tensor Embed(torch::nn::Embedding& tokens_embedding, torch::nn::Embedding& positions_embedding,
                 const at::Tensor& tokens);

// What Module::Generate is asked.
struct TextRequest {
  std::vector<int32_t> prompt;
  int64_t count = 0;
  double temperature = 0;
  uint64_t seed = 0;
};
// [batch, length] tokens -> [batch, length, vocabulary].
using LogitsFunction = std::function<at::Tensor(const at::Tensor& tokens)>;
// Prompt and continuation, each token predicted from the last `context` ones; `module` is in evaluation mode meanwhile.
// `logits` is given tokens on `device`.
absl::StatusOr<std::vector<int32_t>> ContinueText(torch::nn::Module& module, int64_t context,
                                                  const LogitsFunction& logits, const TextRequest& request,
                                                  const at::Device& device);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODELS_GPT_PARTS_H_
