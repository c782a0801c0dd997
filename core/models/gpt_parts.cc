#include "shardwright/core/models/gpt_parts.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "shardwright/core/module/call_torch.h"

namespace shardwright {
namespace {

// Embedding looks tokens up by int64 and refuses those outside the vocabulary.
at::Tensor ToTensor(const std::vector<int32_t>& tokens, int64_t rows, int64_t columns, const at::Device& device) {
  TORCH_CHECK_VALUE(static_cast<int64_t>(tokens.size()) == rows * columns, "a batch of ", rows, " samples of ", columns,
                    " tokens needs ", rows * columns, " of them, got ", tokens.size());
  const at::Tensor host = at::from_blob(const_cast<int32_t*>(tokens.data()), {rows, columns}, at::kInt);
  return host.to(at::TensorOptions(at::kLong).device(device));
}

bool IsDecayed(const TensorMeta& meta) {
  const absl::string_view name = meta.name;
  // By name, not by rank: biases of stacked layers have two dimensions.
  const bool is_bias = absl::EndsWith(name, "bias");
  const bool is_embedding = absl::StartsWith(name, "wte.") || absl::StartsWith(name, "wpe.");
  return meta.shape.size() >= 2 && !is_bias && !is_embedding;
}

std::vector<int32_t> Continue(torch::nn::Module& module, int64_t context, const LogitsFunction& logits,
                              const TextRequest& request, const at::Device& device) {
  torch::NoGradGuard no_grad;
  const EvalMode eval(module);
  at::Generator generator = at::detail::createCPUGenerator(request.seed);
  std::vector<int32_t> tokens = request.prompt;
  for (int64_t i = 0; i < request.count; ++i) {
    const int64_t length = std::min<int64_t>(tokens.size(), context);
    const std::vector<int32_t> window(tokens.end() - length, tokens.end());
    // Drawn on the host, by a generator that is the same everywhere.
    const at::Tensor last = logits(ToTensor(window, 1, length, device))[0][-1].cpu();
    const at::Tensor next = request.temperature > 0
                                ? at::multinomial((last / request.temperature).softmax(-1), 1, false, generator)
                                : last.argmax();
    tokens.push_back(next.item<int32_t>());
  }
  return tokens;
}

}  // namespace

double ResidualStd(const GptConfig& config) {
  return kInitialStd / std::sqrt(2.0 * static_cast<double>(config.n_layer));
}

torch::nn::Linear MakeLinear(int64_t in, int64_t out, double std) {
  torch::nn::Linear linear(in, out);
  torch::NoGradGuard no_grad;
  linear->weight.normal_(0.0, std);
  linear->bias.zero_();
  return linear;
}

torch::nn::Embedding MakeEmbedding(int64_t count, int64_t n_embd) {
  torch::nn::Embedding embedding(count, n_embd);
  torch::NoGradGuard no_grad;
  embedding->weight.normal_(0.0, kInitialStd);
  return embedding;
}

torch::nn::LayerNorm MakeNorm(int64_t n_embd) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({n_embd}));
}

AttentionImpl::AttentionImpl(const GptConfig& config) : n_head_(config.n_head), dropout_(config.dropout) {
  c_attn_ = register_module("c_attn", MakeLinear(config.n_embd, 3 * config.n_embd, kInitialStd));
  c_proj_ = register_module("c_proj", MakeLinear(config.n_embd, config.n_embd, ResidualStd(config)));
}

at::Tensor AttentionImpl::forward(const at::Tensor& x) {
  const int64_t batch = x.size(0), length = x.size(1), n_embd = x.size(2);
  // [batch, length, 3 * n_embd] -> query, key, value of [batch, head, length, n_embd / n_head] each. Not by select: its
  // backward makes a gradient of all three for each.
  const std::vector<at::Tensor> qkv =
      c_attn_(x).view({batch, length, 3, n_head_, n_embd / n_head_}).permute({2, 0, 3, 1, 4}).unbind(0);
  const at::Tensor heads = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], /*attn_mask=*/{},
                                                            is_training() ? dropout_ : 0.0, /*is_causal=*/true);
  return c_proj_(heads.transpose(1, 2).reshape({batch, length, n_embd}));
}

LmHeadImpl::LmHeadImpl(at::Tensor weight) : weight_(register_parameter("weight", std::move(weight))) {}

at::Tensor LmHeadImpl::forward(const at::Tensor& x) {
  return at::linear(x, weight_);
}

OptimizerSpec MakeGptOptimizer(const GptConfig& config, const std::vector<NamedTorchTensor>& tensors) {
  ParameterGroup decayed{.parameters = {}, .hyperparameters = config.hyperparameters};
  ParameterGroup plain = decayed;
  plain.hyperparameters.weight_decay = 0;
  for (const NamedTorchTensor& named : tensors) {
    if (!named.meta.trainable || !named.alias_of.empty()) continue;
    ParameterGroup& group = IsDecayed(named.meta) ? decayed : plain;
    group.parameters.push_back(named.meta.name);
  }
  return {.kind = config.optimizer, .groups = {decayed, plain}, .schedule = config.schedule};
}

int64_t CountParametersWithoutMlps(const GptConfig& config) {
  const int64_t d = config.n_embd;
  const int64_t of_block = 4 * d * d + 8 * d;  // attention 4d² + 4d, two norms of 2d
  const int64_t of_embeddings = ((config.tie_weights ? 1 : 2) * kVocabulary + config.context) * d;
  return of_embeddings + config.n_layer * of_block + 2 * d;
}

InputsAndTargets SplitBatch(const Batch& batch, const at::Device& device) {
  const at::Tensor tokens = ToTensor(batch.tokens, batch.samples, batch.sample_tokens, device);
  return {.inputs = tokens.slice(/*dim=*/1, 0, -1), .targets = tokens.slice(/*dim=*/1, 1)};
}

at::Tensor Embed(torch::nn::Embedding& tokens_embedding, torch::nn::Embedding& positions_embedding,
                 const at::Tensor& tokens) {
  const int64_t length = tokens.size(1), context = positions_embedding->options.num_embeddings();
  TORCH_CHECK_VALUE(length >= 1 && length <= context, "a sample has ", length,
                    " tokens to predict from, the model's context is ", context);
  return tokens_embedding(tokens) + positions_embedding->weight.slice(/*dim=*/0, 0, length);
}

absl::StatusOr<std::vector<int32_t>> ContinueText(torch::nn::Module& module, int64_t context,
                                                  const LogitsFunction& logits, const TextRequest& request,
                                                  const at::Device& device) {
  if (request.prompt.empty()) return absl::InvalidArgumentError("generating text: the prompt is empty");
  return CallTorch([&] { return Continue(module, context, logits, request, device); });
}

}  // namespace shardwright
