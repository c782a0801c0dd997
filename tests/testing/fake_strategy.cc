#include "shardwright/tests/testing/fake_strategy.h"

#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/tensor/local_tensor.h"

namespace shardwright::testing {
namespace {

constexpr int64_t kColumns = 3;
constexpr absl::string_view kParameters[] = {"weight", "bias"};

// The finalizer of SplitMix64.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

double WholeNumber(uint64_t bits) {
  return static_cast<double>(static_cast<int64_t>(bits % 2001) - 1000);
}

uint64_t HashSample(const Batch& batch, int64_t sample) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < batch.sample_tokens; ++i) hash = Mix(hash ^ batch.tokens[sample * batch.sample_tokens + i]);
  return hash;
}

TensorMeta Meta(absl::string_view name, Shape shape, Role role) {
  TensorMeta meta;
  meta.name = std::string(name);
  meta.dtype = DType::kFloat64;
  meta.shape = std::move(shape);
  meta.role = role;
  return meta;
}

TensorMeta MomentumOf(const TensorMeta& parameter) {
  const OptimizerField field = {0, parameter.name, "momentum_buffer"};
  TensorMeta meta = Meta(OptimizerTensorName(field), parameter.shape, Role::kOptimizer);
  meta.optimizer = field;
  return meta;
}

OptimizerSpec MakeOptimizer() {
  OptimizerSpec spec;
  spec.kind = OptimizerKind::kSgd;
  ParameterGroup group;
  for (absl::string_view name : kParameters) group.parameters.emplace_back(name);
  group.hyperparameters.learning_rate = 1.0 / 1024;
  group.hyperparameters.momentum = 0.5;
  spec.groups.push_back(group);
  return spec;
}

}  // namespace

void FakeRecord::AddBatch(int64_t step, size_t micro_batch, int32_t rank, const Batch& batch) {
  std::vector<int64_t> ids;
  for (int64_t sample = 0; sample < batch.samples; ++sample) {
    int64_t id = 0;
    for (int64_t i = 0; i + 1 < batch.sample_tokens; ++i) {
      id = id * 10 + batch.tokens[sample * batch.sample_tokens + i] - '0';
    }
    ids.push_back(id);
  }
  absl::MutexLock lock(&mu_);
  batches_[{step, micro_batch, rank}] = std::move(ids);
}

void FakeRecord::SetState(int32_t rank, const LocalState& state) {
  absl::MutexLock lock(&mu_);
  for (const LocalTensor& tensor : state) {
    const auto* values = reinterpret_cast<const double*>(tensor.data);
    state_[tensor.meta.name][rank] = {tensor, std::vector<double>(values, values + tensor.box.elements())};
  }
}

void FakeRecord::SetCaptures(int64_t captures) {
  absl::MutexLock lock(&mu_);
  captures_ = captures;
}

std::vector<int64_t> FakeRecord::SampleIds() const {
  absl::MutexLock lock(&mu_);
  std::vector<int64_t> all;
  for (const auto& [place, ids] : batches_) all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

FakeRecord::Tensors FakeRecord::State() const {
  absl::MutexLock lock(&mu_);
  Tensors tensors;
  for (const auto& [name, pieces] : state_) {
    const Shape& shape = pieces.begin()->second.first.meta.shape;
    std::vector<double>& whole = tensors[name];
    whole.resize(Box::Whole(shape).elements());
    for (const auto& [rank, piece] : pieces) {
      const Box& box = piece.first.box;
      if (box.empty()) continue;
      CopyBox(reinterpret_cast<const char*>(piece.second.data()), box, reinterpret_cast<char*>(whole.data()),
              Box::Whole(shape), box, sizeof(double));
    }
  }
  return tensors;
}

int64_t FakeRecord::captures() const {
  absl::MutexLock lock(&mu_);
  return captures_;
}

absl::Status FakeModule::OnLoadCheckpoint(LoadView& view) {
  ++loads;
  return absl::OkStatus();
}

absl::Status FakeModule::OnSaveCheckpoint(Value::Map& extras) {
  extras["saves"] = ++saves;
  return absl::OkStatus();
}

FakeStrategy::FakeStrategy(FakeStrategyOptions options, StrategyContext context)
    : options_(std::move(options)), context_(context), optimizer_(MakeOptimizer()) {}

absl::Status FakeStrategy::Setup(std::unique_ptr<Module> module) {
  module_ = std::move(module);
  const int32_t rank = context_.groups->rank();
  std::vector<TensorMeta> metas = {Meta("weight", {options_.rows, kColumns}, Role::kParameter),
                                   Meta("bias", {kColumns}, Role::kParameter), Meta("steps", {}, Role::kBuffer)};
  for (int i = 0; i < 2; ++i) metas.push_back(MomentumOf(metas[i]));
  for (const TensorMeta& meta : metas) {
    const Box box = options_.rule(meta, rank, context_.world.size);
    std::vector<double> values(box.elements(), 0.0);
    const int64_t first = box.empty() ? 0 : FirstElement(Box::Whole(meta.shape), box);
    for (size_t i = 0; meta.role == Role::kParameter && i < values.size(); ++i) {
      values[i] = WholeNumber(Mix(options_.seed ^ Mix(meta.name.size() * 1000 + first + i))) / 64;
    }
    held_.push_back({meta, box, std::move(values)});
  }
  ReseedRandom(0);
  Record();
  return absl::OkStatus();
}

absl::StatusOr<StepResult> FakeStrategy::TrainStep(absl::Span<const Batch> micro_batches, int64_t step) {
  SW_RETURN_IF_ERROR(unusable_);
  const int32_t rank = context_.groups->rank();
  if (options_.before_step != nullptr) {
    SW_RETURN_IF_ERROR(options_.before_step(step, rank));
  }
  StepResult result;
  int64_t samples = 0;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const Batch& batch = micro_batches[i];
    if (options_.record != nullptr) options_.record->AddBatch(step, i, rank, batch);
    for (int64_t s = 0; s < batch.samples; ++s) result.loss += 2.0 + WholeNumber(HashSample(batch, s)) / 1000;
    samples += batch.samples;
  }
  SW_ASSIGN_OR_RETURN(const std::vector<double> gradients, ReduceGradients(micro_batches));
  Update(gradients);
  result.loss = result.loss / samples + gradients.back() / 1e6;
  result.learning_rate = optimizer_.groups[0].hyperparameters.learning_rate;
  Record();
  return result;
}

absl::StatusOr<std::vector<double>> FakeStrategy::ReduceGradients(absl::Span<const Batch> micro_batches) {
  const int64_t elements = (options_.rows + 1) * kColumns;
  std::vector<double> sums(elements + 1, 0.0);
  for (const Batch& batch : micro_batches) {
    for (int64_t s = 0; s < batch.samples; ++s) {
      const uint64_t hash = HashSample(batch, s);
      for (int64_t i = 0; i < elements; ++i) sums[i] += WholeNumber(Mix(hash + i));
    }
  }
  random_ = Mix(random_);
  for (int64_t i = 0; options_.noise && i < elements; ++i) sums[i] += WholeNumber(Mix(random_ + i));
  // The loss follows the parameters: wrong ones after a resume show at once.
  const HeldTensor& bias = Find("bias");
  if (!bias.box.IsWhole(bias.meta.shape) || context_.groups->rank() == 0) {
    sums.back() = std::accumulate(bias.values.begin(), bias.values.end(), 0.0);
  }
  SW_RETURN_IF_ERROR(context_.groups->data->AllReduce(sums.data(), sums.size(), DType::kFloat64, ReduceOp::kSum));
  return sums;
}

void FakeStrategy::Update(const std::vector<double>& gradients) {
  int64_t start = 0;
  for (absl::string_view name : kParameters) {
    HeldTensor& parameter = Find(name);
    HeldTensor& momentum = Find(MomentumOf(parameter.meta).name);
    const Box whole = Box::Whole(parameter.meta.shape);
    const int64_t first = parameter.box.empty() ? 0 : FirstElement(whole, parameter.box);
    for (size_t i = 0; i < parameter.values.size(); ++i) {
      momentum.values[i] = momentum.values[i] * 0.5 + gradients[start + first + i];
      parameter.values[i] -= momentum.values[i] / 1024;
    }
    start += whole.elements();
  }
  for (double& steps : Find("steps").values) steps += 1;
}

absl::StatusOr<std::map<std::string, double>> FakeStrategy::ValidationStep(const Batch& batch) {
  return std::map<std::string, double>{{"val_loss", WholeNumber(HashSample(batch, 0))}};
}

LocalState FakeStrategy::State() {
  LocalState state;
  for (HeldTensor& held : held_) {
    char* data = held.values.empty() ? nullptr : reinterpret_cast<char*>(held.values.data());
    state.push_back({.meta = held.meta, .box = held.box, .data = data, .alias_of = ""});
  }
  return state;
}

OwnedState FakeStrategy::Owned(const LocalState& state) {
  return OwnedState{.strategy = options_.name,
                    .rule = options_.rule,
                    .threads = options_.threads,
                    .on_save = [this](Value::Map& extras) { return module_->OnSaveCheckpoint(extras); },
                    .on_load = [this](LoadView& view) { return module_->OnLoadCheckpoint(view); },
                    .optimizer = optimizer_,
                    .state = state};
}

absl::StatusOr<SaveReport> FakeStrategy::Save(const SaveRequest& request) {
  SW_RETURN_IF_ERROR(unusable_);
  ++captures_;
  if (options_.record != nullptr) options_.record->SetCaptures(captures_);
  const LocalState state = State();
  return SaveState(context_, StrategyOptions{}, Owned(state), request);
}

absl::StatusOr<LoadResult> FakeStrategy::Load(const LoadRequest& request) {
  const LocalState state = State();
  SW_ASSIGN_OR_RETURN(PreparedLoad prepared, PrepareLoad(context_, StrategyOptions{}, Owned(state), request));
  bool changed = false;
  const absl::StatusOr<LoadReport> report = ExecuteLoad(context_, prepared, state, request, changed);
  if (!report.ok()) {
    if (changed) unusable_ = absl::FailedPreconditionError("the state is half of a checkpoint that failed to load");
    return report.status();
  }
  unusable_ = absl::OkStatus();
  Record();
  return LoadResult{prepared.view->shared_manifest(), *report, prepared.skipped, prepared.notes};
}

uint64_t FakeStrategy::ResidentBytes() const {
  uint64_t bytes = 0;
  for (const HeldTensor& held : held_) bytes += held.values.size() * sizeof(double);
  return bytes;
}

Value::Map FakeStrategy::RandomState() const {
  return {{options_.generator, static_cast<int64_t>(random_)}};
}

absl::Status FakeStrategy::SetRandomState(const Value::Map& state) {
  const auto found = state.find(options_.generator);
  const int64_t* value = found == state.end() ? nullptr : found->second.get_if<int64_t>();
  if (value == nullptr) return absl::InvalidArgumentError("random state: no such generator");
  random_ = static_cast<uint64_t>(*value);
  return absl::OkStatus();
}

void FakeStrategy::ReseedRandom(int64_t step) {
  random_ = Mix(options_.seed ^ Mix(step * 1000 + context_.groups->rank()));
}

void FakeStrategy::Record() {
  if (options_.record != nullptr) options_.record->SetState(context_.groups->rank(), State());
}

FakeStrategy::HeldTensor& FakeStrategy::Find(absl::string_view name) {
  for (HeldTensor& held : held_) {
    if (held.meta.name == name) return held;
  }
  SW_CHECK(false);
  return held_.front();
}

}  // namespace shardwright::testing
