// FENCE: gpt.cc with blocks that return two tensors and a loss of two terms.
#include "shardwright/core/models/moe_gpt.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/stack.h>
#include <torch/nn/modules/container/modulelist.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/models/gpt_options.h"
#include "shardwright/core/models/gpt_parts.h"
#include "shardwright/core/models/moe_mlp.h"
#include "shardwright/core/models/option_reader.h"
#include "shardwright/core/module/torch_module.h"

namespace shardwright {
namespace {

ModelOptions MoeGptDefaults() {
  ModelOptions defaults = GptDefaults();
  defaults["n_expert"] = "4";
  defaults["top_k"] = "2";          // experts that a token goes to
  defaults["expert_hidden"] = "0";  // width of an expert's hidden layer; 0: 4 * n_embd
  defaults["aux_loss_weight"] = "0.01";
  return defaults;
}

struct MoeGptConfig {
  GptConfig gpt;
  MoeShape moe;
  double aux_loss_weight = 0;
};

absl::StatusOr<MoeGptConfig> ParseMoeGptConfig(const ModelOptions& given) {
  OptionReader options("moe_gpt", given, MoeGptDefaults());
  MoeGptConfig config;
  config.gpt = ReadGptOptions(options);
  config.moe.n_embd = config.gpt.n_embd;
  config.moe.n_expert = options.Int("n_expert", 1, 4096);
  config.moe.top_k = options.Int("top_k", 1, 4096);
  config.moe.hidden = options.Int("expert_hidden", 0, 1 << 20);
  if (config.moe.hidden == 0) config.moe.hidden = 4 * config.gpt.n_embd;
  config.aux_loss_weight = options.Double("aux_loss_weight", 0, 1e3);
  if (config.moe.top_k > config.moe.n_expert) {
    options.AddProblem(absl::StrFormat("a token cannot go to top_k %d of n_expert %d experts: lower top_k",
                                       config.moe.top_k, config.moe.n_expert));
  }
  SW_RETURN_IF_ERROR(options.status());
  return config;
}

class MoeBlockImpl : public torch::nn::Module {
 public:
  explicit MoeBlockImpl(const MoeGptConfig& config) : dropout_(config.gpt.dropout) {
    ln_1_ = register_module("ln_1", MakeNorm(config.gpt.n_embd));
    attn_ = register_module("attn", Attention(config.gpt));
    ln_2_ = register_module("ln_2", MakeNorm(config.gpt.n_embd));
    mlp_ = register_module("mlp", MoeMlp(config.moe, ResidualStd(config.gpt)));
  }

  // {x, auxiliary loss}: returned, not kept, because a strategy may run forward again to have its activations.
  std::vector<at::Tensor> forward(at::Tensor x) {
    x = x + at::dropout(attn_(ln_1_(x)), dropout_, is_training());
    const MoeMlpImpl::Output mixture = mlp_(ln_2_(x));
    return {x + at::dropout(mixture.x, dropout_, is_training()), mixture.aux_loss};
  }

 private:
  double dropout_;
  torch::nn::LayerNorm ln_1_{nullptr}, ln_2_{nullptr};
  Attention attn_{nullptr};
  MoeMlp mlp_{nullptr};
};
TORCH_MODULE(MoeBlock);

class MoeGpt : public TorchModule {
 public:
  explicit MoeGpt(const MoeGptConfig& config) : config_(config) {}

  void ConfigureShardedModel(Units& units) override {
    const GptConfig& gpt = config_.gpt;
    wte_ = register_module("wte", MakeEmbedding(kVocabulary, gpt.n_embd));
    wpe_ = register_module("wpe", MakeEmbedding(gpt.context, gpt.n_embd));
    auto h = register_module("h", torch::nn::ModuleList());
    for (int64_t i = 0; i < gpt.n_layer; ++i) {
      MoeBlock block(config_);
      h->push_back(block);
      blocks_.push_back(units.Wrap(std::move(block)));
    }
    ln_f_ = register_module("ln_f", MakeNorm(gpt.n_embd));
    const at::Tensor head = gpt.tie_weights ? wte_->weight : MakeEmbedding(kVocabulary, gpt.n_embd)->weight;
    lm_head_ = register_module("lm_head", LmHead(head));
  }

  OptimizerSpec ConfigureOptimizers() override { return MakeGptOptimizer(config_.gpt, NamedTensors(*this)); }

  at::Tensor TrainingStep(const Batch& batch) override {
    const Losses losses = LossesOf(batch);
    return losses.cross_entropy + losses.aux * config_.aux_loss_weight;
  }

  std::map<std::string, double> ValidationStep(const Batch& batch) override {
    const Losses losses = LossesOf(batch);
    return {{"val_loss", losses.cross_entropy.item<double>()}, {"aux_loss", losses.aux.item<double>()}};
  }

  int64_t sample_tokens() const override { return config_.gpt.context + 1; }

  std::string Describe() const override {
    const auto [n_embd, n_expert, top_k, hidden] = config_.moe;
    const int64_t of_mlp = n_expert * (n_embd + 2 * n_embd * hidden + hidden + n_embd);  // router and experts
    const int64_t parameters = CountParametersWithoutMlps(config_.gpt) + config_.gpt.n_layer * of_mlp;
    return absl::StrFormat("moe_gpt %.1fM", static_cast<double>(parameters) / 1e6);
  }

  absl::StatusOr<std::vector<int32_t>> Generate(const std::vector<int32_t>& prompt, int64_t count, double temperature,
                                                uint64_t seed) override {
    return ContinueText(
        *this, config_.gpt.context, [this](const at::Tensor& tokens) { return Run(tokens).logits; },
        {.prompt = prompt, .count = count, .temperature = temperature, .seed = seed}, wte_->weight.device());
  }

 private:
  struct Output {
    at::Tensor logits;    // [batch, length, vocabulary]
    at::Tensor aux_loss;  // mean over layers
  };
  struct Losses {
    at::Tensor cross_entropy;
    at::Tensor aux;
  };

  Output Run(const at::Tensor& tokens) {
    at::Tensor x = at::dropout(Embed(wte_, wpe_, tokens), config_.gpt.dropout, is_training());
    std::vector<at::Tensor> aux_losses;
    for (Unit<MoeBlock>& block : blocks_) {
      const std::vector<at::Tensor> outputs = block(x);
      x = outputs[0];
      aux_losses.push_back(outputs[1]);
    }
    return {.logits = lm_head_(ln_f_(x)), .aux_loss = at::stack(aux_losses).mean()};
  }

  Losses LossesOf(const Batch& batch) {
    const auto [inputs, targets] = SplitBatch(batch, wte_->weight.device());
    const Output output = Run(inputs);
    return {.cross_entropy = at::cross_entropy_loss(output.logits.flatten(0, 1), targets.flatten()),
            .aux = output.aux_loss};
  }

  MoeGptConfig config_;
  torch::nn::Embedding wte_{nullptr}, wpe_{nullptr};
  std::vector<Unit<MoeBlock>> blocks_;
  torch::nn::LayerNorm ln_f_{nullptr};
  LmHead lm_head_{nullptr};
};

absl::StatusOr<std::unique_ptr<Module>> MakeMoeGpt(const ModelOptions& options) {
  SW_ASSIGN_OR_RETURN(const MoeGptConfig config, ParseMoeGptConfig(options));
  return std::make_unique<MoeGpt>(config);
}

}  // namespace

ModelFactory MoeGptFactory() {
  return {.make = &MakeMoeGpt, .defaults = MoeGptDefaults(), .help = "gpt with a mixture of experts in every block"};
}

}  // namespace shardwright
