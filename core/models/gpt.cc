// FENCE: a model is a TorchModule and a ModelFactory; this file shows both. To write your own, copy it: rename the
// class, change the layers (gpt_parts.h has those of all GPTs) and the options (gpt_options.h; moe_gpt.cc adds some),
// and add a row to your table of models.
#include "shardwright/core/models/gpt.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <torch/nn/modules/container/modulelist.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/models/gpt_options.h"
#include "shardwright/core/models/gpt_parts.h"
#include "shardwright/core/models/option_reader.h"
#include "shardwright/core/module/torch_module.h"

namespace shardwright {
namespace {

// Layers.

class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const GptConfig& config) {
    c_fc_ = register_module("c_fc", MakeLinear(config.n_embd, 4 * config.n_embd, kInitialStd));
    c_proj_ = register_module("c_proj", MakeLinear(4 * config.n_embd, config.n_embd, ResidualStd(config)));
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

  OptimizerSpec ConfigureOptimizers() override { return MakeGptOptimizer(config_, NamedTensors(*this)); }

  // Predicts each token of a sample from those before it.
  at::Tensor TrainingStep(const Batch& batch) override {
    const auto [inputs, targets] = SplitBatch(batch, wte_->weight.device());
    return at::cross_entropy_loss(Logits(inputs).flatten(0, 1), targets.flatten());
  }

  int64_t sample_tokens() const override { return config_.context + 1; }

  std::string Describe() const override {
    const int64_t d = config_.n_embd;
    const int64_t parameters = CountParametersWithoutMlps(config_) + config_.n_layer * (8 * d * d + 5 * d);
    return absl::StrFormat("gpt %.1fM", static_cast<double>(parameters) / 1e6);
  }

  absl::StatusOr<std::vector<int32_t>> Generate(const std::vector<int32_t>& prompt, int64_t count, double temperature,
                                                uint64_t seed) override {
    return ContinueText(
        *this, config_.context, [this](const at::Tensor& tokens) { return Logits(tokens); },
        {.prompt = prompt, .count = count, .temperature = temperature, .seed = seed}, wte_->weight.device());
  }

 private:
  // [batch, length] tokens -> [batch, length, vocabulary].
  at::Tensor Logits(const at::Tensor& tokens) {
    at::Tensor x = at::dropout(Embed(wte_, wpe_, tokens), config_.dropout, is_training());
    for (Unit<Block>& block : blocks_) x = block(x);
    return lm_head_(ln_f_(x));
  }

  GptConfig config_;
  torch::nn::Embedding wte_{nullptr}, wpe_{nullptr};
  std::vector<Unit<Block>> blocks_;
  torch::nn::LayerNorm ln_f_{nullptr};
  LmHead lm_head_{nullptr};
};

absl::StatusOr<std::unique_ptr<Module>> MakeGpt(const ModelOptions& given) {
  OptionReader options("gpt", given, GptDefaults());
  const GptConfig config = ReadGptOptions(options);
  SW_RETURN_IF_ERROR(options.status());
  return std::make_unique<Gpt>(config);
}

}  // namespace

ModelFactory GptFactory() {
  return {.make = &MakeGpt, .defaults = GptDefaults(), .help = "byte-level GPT in the manner of minGPT"};
}

}  // namespace shardwright
