#include "shardwright/tests/conformance/strategy/toy_module.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <limits>
#include <utility>

#include "shardwright/core/module/torch_module.h"

namespace shardwright::testing {
namespace {

struct LayerImpl : torch::nn::Module {
  LayerImpl(int64_t out, int64_t in) {
    weight = register_parameter("weight", at::randn({out, in}) / 3);
    bias = register_parameter("bias", at::zeros({out}));
  }
  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight, bias); }
  at::Tensor weight, bias;
};
TORCH_MODULE(Layer);

class ToyModule : public TorchModule {
 public:
  explicit ToyModule(ToyOptions options) : options_(std::move(options)) {}

  void ConfigureShardedModel(Units& units) override {
    constexpr int64_t kWidth = 6;
    embedding_ = register_parameter("embedding", at::randn({kToyVocabulary, kWidth}));
    frozen_ = register_parameter("frozen", at::randn({kWidth, kWidth}), /*requires_grad=*/false);
    hidden_ = units.Wrap<Layer>(register_module(options_.hidden_name, Layer(options_.hidden_rows, kWidth)));
    back_ = units.Wrap<Layer>(register_module("back", Layer(kWidth, options_.hidden_rows)));
    register_module("unused", Layer(3, 2));
    gain_ = register_parameter("gain", at::zeros({}) + 1);
    register_parameter("empty", at::zeros({0, 3}));
    head_ = register_parameter("head", options_.tied ? embedding_ : at::randn({kToyVocabulary, kWidth}));
    mean_ = register_buffer("mean", at::zeros({kWidth}));
    calls_ = register_buffer("calls", at::zeros({}, at::kLong));
    if (options_.extra_parameter) register_parameter("extra", at::zeros({2}));
  }

  OptimizerSpec ConfigureOptimizers() override {
    ParameterGroup group{.parameters = {}, .hyperparameters = options_.hyperparameters};
    for (const NamedTorchTensor& named : NamedTensors(*this)) {
      if (named.meta.trainable && named.alias_of.empty()) group.parameters.push_back(named.meta.name);
    }
    return {.kind = options_.optimizer, .groups = {group}, .schedule = {.warmup_steps = 2}};
  }

  at::Tensor TrainingStep(const Batch& batch) override {
    const at::Tensor tokens =
        at::from_blob(const_cast<int32_t*>(batch.tokens.data()), {batch.samples, batch.sample_tokens}, at::kInt)
            .to(at::kLong);
    at::Tensor x = at::embedding(embedding_, tokens.slice(1, 0, -1)).matmul(frozen_);
    x = at::dropout(x, options_.dropout, is_training());
    if (is_training()) UpdateBuffers(x);
    x = back_(at::tanh(hidden_(x))) * gain_;
    const at::Tensor loss = at::cross_entropy_loss(at::linear(x, head_).flatten(0, 1), tokens.slice(1, 1).flatten());
    const bool poisoned = options_.poison != nullptr && *options_.poison;
    return poisoned ? loss * std::numeric_limits<double>::quiet_NaN() : loss;
  }

  absl::Status OnLoadCheckpoint(LoadView& view) override {
    return options_.on_load ? options_.on_load(view) : absl::OkStatus();
  }
  absl::Status OnSaveCheckpoint(Value::Map& extras) override {
    return options_.on_save ? options_.on_save(extras) : absl::OkStatus();
  }
  int64_t sample_tokens() const override { return kToyTokens; }
  std::string Describe() const override { return "toy"; }

 private:
  void UpdateBuffers(const at::Tensor& x) {
    c10::NoGradGuard no_grad;
    mean_.mul_(0.9).add_(x.mean(at::IntArrayRef({0, 1})), 0.1);
    calls_.add_(1);
  }

  ToyOptions options_;
  at::Tensor embedding_, frozen_, gain_, head_, mean_, calls_;
  Unit<Layer> hidden_, back_;
};

}  // namespace

std::unique_ptr<Module> MakeToyModule(const ToyOptions& options) {
  return std::make_unique<ToyModule>(options);
}

Batch ToyBatch(int64_t first, int64_t samples) {
  Batch batch{.samples = samples, .sample_tokens = kToyTokens, .tokens = {}};
  for (int64_t sample = first; sample < first + samples; ++sample) {
    for (int64_t i = 0; i < kToyTokens; ++i) {
      batch.tokens.push_back(static_cast<int32_t>((sample * 3 + i * (1 + sample % 4)) % kToyVocabulary));
    }
  }
  return batch;
}

}  // namespace shardwright::testing
