#include "bigram.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <torch/nn/modules/embedding.h>

#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/module/torch_module.h"

namespace trainer {
namespace {

constexpr int64_t kVocabulary = 256;

class Bigram : public shardwright::TorchModule {
 public:
  explicit Bigram(int64_t context) : context_(context) {}

  void ConfigureShardedModel(shardwright::Units&) override {
    table_ = register_module("table", torch::nn::Embedding(kVocabulary, kVocabulary));
  }

  shardwright::OptimizerSpec ConfigureOptimizers() override {
    shardwright::OptimizerSpec spec;
    spec.groups.push_back({.parameters = {"table.weight"}, .hyperparameters = {.learning_rate = 0.1}});
    return spec;
  }

  at::Tensor TrainingStep(const shardwright::Batch& batch) override {
    // from_blob does not write; it merely lacks a const form.
    const at::Tensor tokens = at::from_blob(const_cast<int32_t*>(batch.tokens.data()),
                                            {batch.samples, batch.sample_tokens}, at::TensorOptions().dtype(at::kInt))
                                  .to(at::kLong);
    const at::Tensor logits = at::embedding(table_->weight, tokens.slice(1, 0, -1));
    return at::cross_entropy_loss(logits.flatten(0, 1), tokens.slice(1, 1).flatten());
  }

  int64_t sample_tokens() const override { return context_ + 1; }
  std::string Describe() const override { return "bigram, a table of 256 x 256"; }

 private:
  int64_t context_;
  torch::nn::Embedding table_{nullptr};
};

absl::StatusOr<std::unique_ptr<shardwright::Module>> MakeBigram(const shardwright::ModelOptions& options) {
  int64_t context = 32;
  for (const auto& [name, value] : options) {
    if (name != "context") return absl::InvalidArgumentError(absl::StrCat("bigram has no option \"", name, "\""));
    if (!absl::SimpleAtoi(value, &context) || context < 1) {
      return absl::InvalidArgumentError(absl::StrCat("bigram's context is ", value, ", want a count above 0"));
    }
  }
  return std::make_unique<Bigram>(context);
}

}  // namespace

shardwright::ModelFactory BigramFactory() {
  return {.make = &MakeBigram, .defaults = {{"context", "32"}}, .help = "the next byte from the last one alone"};
}

}  // namespace trainer
