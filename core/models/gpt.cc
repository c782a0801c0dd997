// FENCE: a model is a TorchModule and a ModelFactory; this file shows both. To write your own, copy it: rename the
// class, change the layers and the options, and add a row to your table of models.
#include "shardwright/core/models/gpt.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/models/option_reader.h"
#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/module/torch_module.h"

namespace shardwright {
namespace {

constexpr int64_t kVocabulary = 256;  // a token is a byte
constexpr double kInitialStd = 0.02;

// Options: what can be set from outside, with defaults.

ModelOptions GptDefaults() {
  return {
      // Shape.
      {"n_layer", "4"},
      {"n_head", "4"},
      {"n_embd", "128"},
      {"context", "128"},
      {"tie_weights", "true"},  // the output layer shares the token embedding
      {"dropout", "0"},
      // Optimizer.
      {"optimizer", "adamw"},
      {"learning_rate", "1e-3"},
      {"weight_decay", "0.1"},
      {"beta1", "0.9"},
      {"beta2", "0.95"},
      {"momentum", "0.9"},  // sgd
      // Schedule.
      {"schedule", "cosine"},
      {"warmup_steps", "0"},
      {"total_steps", "0"},  // 0: the rate does not decay
  };
}

struct GptConfig {
  int64_t n_layer = 0;
  int64_t n_head = 0;
  int64_t n_embd = 0;
  int64_t context = 0;
  bool tie_weights = false;
  double dropout = 0;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  OptimizerHyperparameters hyperparameters;
  LearningRateSchedule schedule;
};

absl::StatusOr<GptConfig> ParseGptConfig(const ModelOptions& given) {
  OptionReader options("gpt", given, GptDefaults());
  GptConfig config;
  config.n_layer = options.Int("n_layer", 1, 1000);
  config.n_head = options.Int("n_head", 1, 1024);
  config.n_embd = options.Int("n_embd", 1, 1 << 16);
  config.context = options.Int("context", 1, 1 << 20);
  config.tie_weights = options.Bool("tie_weights");
  config.dropout = options.Double("dropout", 0, 0.99);
  config.hyperparameters.learning_rate = options.Double("learning_rate", 0, 1e3);
  config.hyperparameters.weight_decay = options.Double("weight_decay", 0, 1e3);
  config.hyperparameters.beta1 = options.Double("beta1", 0, 0.999999);
  config.hyperparameters.beta2 = options.Double("beta2", 0, 0.999999);
  config.hyperparameters.momentum = options.Double("momentum", 0, 0.999999);
  config.schedule.warmup_steps = options.Int("warmup_steps", 0, int64_t{1} << 40);
  config.schedule.total_steps = options.Int("total_steps", 0, int64_t{1} << 40);
  const auto optimizer = ParseOptimizerKind(options.Text("optimizer"));
  if (!optimizer.ok()) options.AddProblem(optimizer.status().message());
  const auto schedule = ParseScheduleKind(options.Text("schedule"));
  if (!schedule.ok()) options.AddProblem(schedule.status().message());
  if (config.n_embd % config.n_head != 0) {
    options.AddProblem(absl::StrFormat("n_embd %d is not a multiple of n_head %d", config.n_embd, config.n_head));
  }
  SW_RETURN_IF_ERROR(options.status());
  config.optimizer = *optimizer;
  config.schedule.kind = *schedule;
  return config;
}

// Layers. Each initialises its own parameters from torch's default generator as soon as it is built, so that the random
// stream is the same whether a strategy then keeps all of them or a shard.

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

class AttentionImpl : public torch::nn::Module {
 public:
  explicit AttentionImpl(const GptConfig& config) : n_head_(config.n_head), dropout_(config.dropout) {
    c_attn_ = register_module("c_attn", MakeLinear(config.n_embd, 3 * config.n_embd, kInitialStd));
    // Each block adds twice to the residual stream; the smaller start keeps its variance independent of depth.
    const double residual_std = kInitialStd / std::sqrt(2.0 * static_cast<double>(config.n_layer));
    c_proj_ = register_module("c_proj", MakeLinear(config.n_embd, config.n_embd, residual_std));
  }

  at::Tensor forward(const at::Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), n_embd = x.size(2);
    // [batch, length, 3 * n_embd] -> query, key, value of [batch, head, length, n_embd / n_head] each.
    const at::Tensor qkv = c_attn_(x).view({batch, length, 3, n_head_, n_embd / n_head_}).permute({2, 0, 3, 1, 4});
    const at::Tensor heads = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], /*attn_mask=*/{},
                                                              is_training() ? dropout_ : 0.0, /*is_causal=*/true);
    return c_proj_(heads.transpose(1, 2).reshape({batch, length, n_embd}));
  }

 private:
  int64_t n_head_;
  double dropout_;
  torch::nn::Linear c_attn_{nullptr}, c_proj_{nullptr};
};
TORCH_MODULE(Attention);

class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const GptConfig& config) {
    c_fc_ = register_module("c_fc", MakeLinear(config.n_embd, 4 * config.n_embd, kInitialStd));
    const double residual_std = kInitialStd / std::sqrt(2.0 * static_cast<double>(config.n_layer));
    c_proj_ = register_module("c_proj", MakeLinear(4 * config.n_embd, config.n_embd, residual_std));
  }

  at::Tensor forward(const at::Tensor& x) { return c_proj_(at::gelu(c_fc_(x), "tanh")); }

 private:
  torch::nn::Linear c_fc_{nullptr}, c_proj_{nullptr};
};
TORCH_MODULE(Mlp);

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const GptConfig& config) : dropout_(config.dropout) {
    ln_1_ = register_module("ln_1", MakeNorm(config.n_embd));
    attn_ = register_module("attn", Attention(config));
    ln_2_ = register_module("ln_2", MakeNorm(config.n_embd));
    mlp_ = register_module("mlp", Mlp(config));
  }

  at::Tensor forward(at::Tensor x) {
    x = x + at::dropout(attn_(ln_1_(x)), dropout_, is_training());
    return x + at::dropout(mlp_(ln_2_(x)), dropout_, is_training());
  }

 private:
  double dropout_;
  torch::nn::LayerNorm ln_1_{nullptr}, ln_2_{nullptr};
  Attention attn_{nullptr};
  Mlp mlp_{nullptr};
};
TORCH_MODULE(Block);

// Logits from the last hidden state. Tied: `weight` is the token embedding's own, registered here under a second name.
class LmHeadImpl : public torch::nn::Module {
 public:
  explicit LmHeadImpl(at::Tensor weight) : weight_(register_parameter("weight", std::move(weight))) {}

  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight_); }

 private:
  at::Tensor weight_;
};
TORCH_MODULE(LmHead);

// The model.

class Gpt : public TorchModule {
 public:
  explicit Gpt(const GptConfig& config) : config_(config) {}

  void ConfigureShardedModel(Units& units) override {
    wte_ = register_module("wte", MakeEmbedding(kVocabulary, config_.n_embd));
    wpe_ = register_module("wpe", MakeEmbedding(config_.context, config_.n_embd));
    auto h = register_module("h", torch::nn::ModuleList());
    for (int64_t i = 0; i < config_.n_layer; ++i) {
      Block block(config_);
      h->push_back(block);
      blocks_.push_back(units.Wrap(std::move(block)));
    }
    ln_f_ = register_module("ln_f", MakeNorm(config_.n_embd));
    const at::Tensor head = config_.tie_weights ? wte_->weight : MakeEmbedding(kVocabulary, config_.n_embd)->weight;
    lm_head_ = register_module("lm_head", LmHead(head));
  }

  // Weight decay is for the matrices that multiply; biases, norms and embeddings go without.
  OptimizerSpec ConfigureOptimizers() override {
    ParameterGroup decayed{.parameters = {}, .hyperparameters = config_.hyperparameters};
    ParameterGroup plain = decayed;
    plain.hyperparameters.weight_decay = 0;
    for (const NamedTorchTensor& named : NamedTensors(*this)) {
      if (!named.meta.trainable || !named.alias_of.empty()) continue;
      const std::string& name = named.meta.name;
      const bool is_embedding = absl::StartsWith(name, "wte.") || absl::StartsWith(name, "wpe.");
      ParameterGroup& group = named.meta.shape.size() >= 2 && !is_embedding ? decayed : plain;
      group.parameters.push_back(name);
    }
    return {.kind = config_.optimizer, .groups = {decayed, plain}, .schedule = config_.schedule};
  }

  // Predicts each token of a sample from those before it.
  at::Tensor TrainingStep(const Batch& batch) override {
    const at::Tensor tokens = ToTensor(batch.tokens, batch.samples, batch.sample_tokens);
    const at::Tensor inputs = tokens.slice(/*dim=*/1, 0, -1);
    const at::Tensor targets = tokens.slice(/*dim=*/1, 1);
    return at::cross_entropy_loss(Logits(inputs).flatten(0, 1), targets.flatten());
  }

  int64_t sample_tokens() const override { return config_.context + 1; }

  std::string Describe() const override {
    const int64_t d = config_.n_embd;
    const int64_t of_block = 12 * d * d + 13 * d;  // attention 4d² + 4d, MLP 8d² + 5d, two norms of 2d
    const int64_t of_embeddings = ((config_.tie_weights ? 1 : 2) * kVocabulary + config_.context) * d;
    const int64_t parameters = of_embeddings + config_.n_layer * of_block + 2 * d;
    return absl::StrFormat("gpt %.1fM", static_cast<double>(parameters) / 1e6);
  }

  absl::StatusOr<std::vector<int32_t>> Generate(const std::vector<int32_t>& prompt, int64_t count, double temperature,
                                                uint64_t seed) override {
    if (prompt.empty()) return absl::InvalidArgumentError("generating text: the prompt is empty");
    return CallTorch([&] { return Continue(prompt, count, temperature, seed); });
  }

 private:
  // Embedding looks tokens up by int64 and refuses those outside the vocabulary.
  static at::Tensor ToTensor(const std::vector<int32_t>& tokens, int64_t rows, int64_t columns) {
    TORCH_CHECK_VALUE(static_cast<int64_t>(tokens.size()) == rows * columns, "a batch of ", rows, " samples of ",
                      columns, " tokens needs ", rows * columns, " of them, got ", tokens.size());
    return at::from_blob(const_cast<int32_t*>(tokens.data()), {rows, columns}, at::kInt).to(at::kLong);
  }

  // [batch, length] tokens -> [batch, length, vocabulary].
  at::Tensor Logits(const at::Tensor& tokens) {
    const int64_t length = tokens.size(1);
    TORCH_CHECK_VALUE(length >= 1 && length <= config_.context, "a sample has ", length,
                      " tokens to predict from, the context of "
                      "this gpt is ",
                      config_.context);
    at::Tensor x = wte_(tokens) + wpe_->weight.slice(/*dim=*/0, 0, length);
    x = at::dropout(x, config_.dropout, is_training());
    for (Unit<Block>& block : blocks_) x = block(x);
    return lm_head_(ln_f_(x));
  }

  std::vector<int32_t> Continue(std::vector<int32_t> tokens, int64_t count, double temperature, uint64_t seed) {
    torch::NoGradGuard no_grad;
    const EvalMode eval(*this);
    at::Generator generator = at::detail::createCPUGenerator(seed);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t length = std::min<int64_t>(tokens.size(), config_.context);
      const std::vector<int32_t> window(tokens.end() - length, tokens.end());
      const at::Tensor logits = Logits(ToTensor(window, 1, length))[0][-1];
      const at::Tensor next =
          temperature > 0 ? at::multinomial((logits / temperature).softmax(-1), 1, false, generator) : logits.argmax();
      tokens.push_back(next.item<int32_t>());
    }
    return tokens;
  }

  GptConfig config_;
  torch::nn::Embedding wte_{nullptr}, wpe_{nullptr};
  std::vector<Unit<Block>> blocks_;
  torch::nn::LayerNorm ln_f_{nullptr};
  LmHead lm_head_{nullptr};
};

absl::StatusOr<std::unique_ptr<Module>> MakeGpt(const ModelOptions& options) {
  SW_ASSIGN_OR_RETURN(const GptConfig config, ParseGptConfig(options));
  return std::make_unique<Gpt>(config);
}

}  // namespace

ModelFactory GptFactory() {
  return {.make = &MakeGpt, .defaults = GptDefaults(), .help = "byte-level GPT in the manner of minGPT"};
}

}  // namespace shardwright
