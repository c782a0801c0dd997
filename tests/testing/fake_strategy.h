// A strategy without torch: a few small tensors of doubles, real checkpoints, exact arithmetic.
//
// Gradients are whole numbers made of the samples' tokens, and so their sums do not depend on how samples are spread
// over ranks: parameters are bit-equal at every world size, and under whole and sharded placement alike. (Losses are
// means of means: equal at the same world size.) With `noise`, each rank adds a number of its own random generator to
// each step.
#ifndef SHARDWRIGHT_TESTS_TESTING_FAKE_STRATEGY_H_
#define SHARDWRIGHT_TESTS_TESTING_FAKE_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "shardwright/core/module/optimizer_spec.h"
#include "shardwright/core/strategy/state_io.h"
#include "shardwright/core/strategy/strategy.h"

namespace shardwright::testing {

// What the ranks of one run did. Thread-safe.
class FakeRecord {
 public:
  // Bytes of whole tensors by name, put together from the ranks' boxes.
  using Tensors = std::map<std::string, std::vector<double>>;

  void AddBatch(int64_t step, size_t micro_batch, int32_t rank, const Batch& batch);
  void SetState(int32_t rank, const LocalState& state);
  void SetCaptures(int64_t captures);

  // First tokens of samples, digits taken as a number, in the order of the run: by step, micro-batch, rank.
  std::vector<int64_t> SampleIds() const;
  Tensors State() const;
  int64_t captures() const;

 private:
  mutable absl::Mutex mu_;
  std::map<std::tuple<int64_t, size_t, int32_t>, std::vector<int64_t>> batches_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::map<int32_t, std::pair<LocalTensor, std::vector<double>>>> state_ ABSL_GUARDED_BY(mu_);
  int64_t captures_ ABSL_GUARDED_BY(mu_) = 0;
};

class FakeModule : public Module {
 public:
  explicit FakeModule(int64_t sample_tokens) : sample_tokens_(sample_tokens) {}
  int64_t sample_tokens() const override { return sample_tokens_; }
  std::string Describe() const override { return "fake"; }
  absl::Status OnLoadCheckpoint(LoadView& view) override;
  absl::Status OnSaveCheckpoint(Value::Map& extras) override;

  int64_t loads = 0;
  int64_t saves = 0;

 private:
  int64_t sample_tokens_;
};

struct FakeStrategyOptions {
  std::string name = "ddp";
  PlacementRule rule = &ReplicatedBox;
  uint64_t seed = 1;
  int32_t threads = 1;
  int64_t rows = 7;  // of the weight: another number is another model
  bool noise = false;
  std::string generator = "fake_cpu";  // the name of its random generator
  // Called with the number of finished steps; an error fails the step on this rank alone.
  std::function<absl::Status(int64_t step, int32_t rank)> before_step;
  FakeRecord* record = nullptr;  // Not owned. May be null.
};

// Single-threaded, as every strategy.
class FakeStrategy : public Strategy {
 public:
  FakeStrategy(FakeStrategyOptions options, StrategyContext context);

  absl::string_view name() const override { return options_.name; }
  absl::Status Setup(std::unique_ptr<Module> module) override;
  absl::StatusOr<StepResult> TrainStep(absl::Span<const Batch> micro_batches, int64_t step) override;
  absl::StatusOr<std::map<std::string, double>> ValidationStep(const Batch& batch) override;
  absl::StatusOr<std::vector<int32_t>> Generate(const std::vector<int32_t>& prompt, int64_t count, double temperature,
                                                uint64_t seed) override {
    return module_->Generate(prompt, count, temperature, seed);
  }
  absl::StatusOr<SaveReport> Save(const SaveRequest& request) override;
  absl::StatusOr<LoadResult> Load(const LoadRequest& request) override;
  uint64_t ResidentBytes() const override;
  int64_t captures() const override { return captures_; }
  Value::Map RandomState() const override;
  absl::Status SetRandomState(const Value::Map& state) override;
  void ReseedRandom(int64_t step) override;
  int32_t threads() const override { return options_.threads; }

 private:
  struct HeldTensor {
    TensorMeta meta;
    Box box;
    std::vector<double> values;
  };
  LocalState State();
  OwnedState Owned(const LocalState& state);
  // Sums over all ranks: a whole number per element of the parameters, and this strategy's share of the loss.
  absl::StatusOr<std::vector<double>> ReduceGradients(absl::Span<const Batch> micro_batches);
  void Update(const std::vector<double>& gradients);
  void Record();
  HeldTensor& Find(absl::string_view name);

  const FakeStrategyOptions options_;
  const StrategyContext context_;
  std::unique_ptr<Module> module_;
  OptimizerSpec optimizer_;
  std::vector<HeldTensor> held_;
  uint64_t random_ = 0;
  int64_t captures_ = 0;
  absl::Status unusable_;
};

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_TESTING_FAKE_STRATEGY_H_
