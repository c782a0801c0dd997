#include "shardwright/core/strategy/torch_strategy.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/module/autocast.h"
#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/module/torch_device.h"
#include "shardwright/core/module/torch_random.h"

namespace shardwright {
namespace {

PlacementRule RuleOf(absl::string_view strategy) {
  const absl::StatusOr<PlacementRule> rule = PlacementRules().Find(strategy);
  SW_CHECK(rule.ok());
  return *rule;
}

double SquaredNorm(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  if (tensors.empty()) return sum;
  std::vector<at::Tensor> norms = at::_foreach_norm(tensors);
  for (at::Tensor& norm : norms) norm = norm.to(at::kDouble);
  // All at once: a device is waited for but once.
  const at::Tensor all = at::stack(norms).cpu();
  for (int64_t i = 0; i < all.numel(); ++i) sum += std::pow(all.const_data_ptr<double>()[i], 2);
  return sum;
}

absl::Status NotFinite(absl::string_view what, double value) {
  return absl::InternalError(
      absl::StrCat(what, " is ", value, "; nothing was updated; a lower learning rate or clipping may help"));
}

}  // namespace

TorchStrategy::TorchStrategy(absl::string_view name, StrategyOptions options, StrategyContext context)
    : name_(name),
      options_(std::move(options)),
      context_(context),
      plain_hooks_(options_.recompute_activations, context_.device) {
  SW_CHECK(context_.world.size == context_.groups->size());
}

absl::Status TorchStrategy::Setup(std::unique_ptr<Module> module) {
  if (module_ != nullptr) return absl::FailedPreconditionError("a strategy is set up once, and this one is");
  const absl::Status built = Build(std::move(module));
  SW_RETURN_IF_ERROR(AgreeOnStatus(*context_.groups->control, built));
  SW_RETURN_IF_ERROR(CompareModels());
  SW_RETURN_IF_ERROR(CallTorch([&] { return OnBuilt(); })) << "setting up " << name_;
  ReseedRandom(0);
  return absl::OkStatus();
}

absl::Status TorchStrategy::Build(std::unique_ptr<Module> module) {
  SW_RETURN_IF_ERROR(CheckWorld());
  const std::string what = absl::StrCat("building ", module->Describe());
  SW_RETURN_IF_ERROR(UseDevice(context_.device)) << what;
  module_ = std::shared_ptr<TorchModule>(&AsTorchModule(*module));
  module.release();
  SW_RETURN_IF_ERROR(CallTorch([&] { BuildModel(); })) << what;
  SW_RETURN_IF_ERROR(CheckHeld()) << what;
  absl::StatusOr<OptimizerSpec> spec = CallTorch([&] { return module_->ConfigureOptimizers(); });
  SW_RETURN_IF_ERROR(spec.status()) << what;
  absl::StatusOr<std::vector<SteppedParameter>> stepped = CallTorch([&] { return Stepped(); });
  SW_RETURN_IF_ERROR(stepped.status()) << what;
  SW_ASSIGN_OR_RETURN(optimizer_, FusedOptimizer::Create(*std::move(spec), *std::move(stepped)), _ << what);
  return absl::OkStatus();
}

void TorchStrategy::BuildModel() {
  const SeededTorchRandom seeded(options_.seed);
  Units units(unit_hooks());
  module_->ConfigureShardedModel(units);
  module_->train();
  held_ = Hold(*module_);
}

std::vector<HeldTensor> TorchStrategy::Hold(TorchModule& module) {
  MoveToDevice(module, context_.device);
  std::vector<HeldTensor> held;
  for (const NamedTorchTensor& named : NamedTensors(module)) {
    held.push_back(
        {.meta = named.meta, .box = Box::Whole(named.meta.shape), .tensor = named.tensor, .alias_of = named.alias_of});
  }
  return held;
}

std::vector<SteppedParameter> TorchStrategy::Stepped() {
  std::vector<SteppedParameter> stepped;
  for (const HeldTensor& held : held_) {
    if (!held.meta.trainable || !held.alias_of.empty()) continue;
    stepped.push_back({.meta = held.meta, .box = held.box, .tensor = held.tensor});
  }
  return stepped;
}

absl::Status TorchStrategy::CheckHeld() const {
  const std::string elsewhere = absl::StrCat("is not on ", context_.device.ToString());
  for (const HeldTensor& held : held_) {
    const bool here = held.tensor.device() == ToTorchDevice(context_.device);
    const absl::string_view problem = held.meta.dtype == DType::kInvalid ? "has a dtype that checkpoints cannot hold"
                                      : !here                            ? absl::string_view(elsewhere)
                                      : !held.tensor.is_contiguous()     ? "is not contiguous"
                                                                         : "";
    if (problem.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", held.meta.name, "\" ", problem, ": ",
                                                   c10::toString(held.tensor.scalar_type()), " ",
                                                   ShapeToString(held.meta.shape)));
  }
  return absl::OkStatus();
}

absl::Status TorchStrategy::CompareModels() const {
  std::string text;
  for (const HeldTensor& held : held_) {
    absl::StrAppend(&text, held.meta.name.size(), ":", held.meta.name, ShapeToString(held.meta.shape),
                    DTypeName(held.meta.dtype), static_cast<int>(held.meta.role), held.meta.trainable, held.alias_of,
                    ";");
  }
  const std::string mine = HashContent(absl::MakeConstSpan(text)).ToString();
  SW_ASSIGN_OR_RETURN(const std::vector<std::string> all, context_.groups->control->AllGatherBytes(mine));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return absl::InvalidArgumentError(absl::StrCat("ranks 0 and ", rank,
                                                   " built different models: names, shapes, dtypes, "
                                                   "frozen and tied parameters must be the same on every rank"));
  }
  return absl::OkStatus();
}

absl::Status TorchStrategy::CheckUsable() const {
  if (optimizer_ == nullptr) return absl::FailedPreconditionError("the strategy is not set up");
  return unusable_;
}

absl::StatusOr<StepResult> TorchStrategy::TrainStep(absl::Span<const Batch> micro_batches, int64_t step) {
  SW_RETURN_IF_ERROR(CheckUsable());
  const PooledTensorMemory pooled(after_step());
  absl::StatusOr<StepResult> result = CallTorch([&] { return RunStep(micro_batches, step); });
  if (result.ok()) return result;
  GiveUp();
  return Annotate(result.status(), absl::StrCat("step ", step + 1));
}

absl::StatusOr<StepResult> TorchStrategy::RunStep(absl::Span<const Batch> micro_batches, int64_t step) {
  StepResult result;
  SW_ASSIGN_OR_RETURN(result.loss, ComputeGradients(micro_batches));
  SW_ASSIGN_OR_RETURN(result.gradient_norm, ClipGradients());
  result.learning_rate = optimizer_->LearningRate(step);
  SW_RETURN_IF_ERROR(optimizer_->Step(step));
  SW_RETURN_IF_ERROR(EndStep());
  return result;
}

absl::StatusOr<double> TorchStrategy::ComputeGradients(absl::Span<const Batch> micro_batches) {
  int64_t samples = 0;
  for (const Batch& batch : micro_batches) samples += batch.samples;
  if (samples == 0) return absl::InvalidArgumentError("there are no samples");
  module_->train();
  SW_RETURN_IF_ERROR(BeginStep());
  double mean_loss = 0;
  for (const Batch& batch : micro_batches) {
    const double weight = static_cast<double>(batch.samples) / static_cast<double>(samples);
    const bool is_last = &batch == &micro_batches.back();
    SW_ASSIGN_OR_RETURN(const double loss, RunMicroBatch(batch, weight, is_last));
    mean_loss += loss * weight;
  }
  SW_RETURN_IF_ERROR(FinishGradients()) << "reducing gradients";
  return mean_loss;
}

absl::StatusOr<double> TorchStrategy::RunMicroBatch(const Batch& batch, double weight, bool is_last) {
  SW_RETURN_IF_ERROR(BeginPass());
  at::Tensor loss;
  {
    const Autocast autocast(options_.compute_dtype, context_.device);
    loss = module_->TrainingStep(batch);
  }
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad()) {
    return absl::InvalidArgumentError("TrainingStep must return one number that depends on trainable parameters");
  }
  const double value = loss.item<double>();
  if (!std::isfinite(value)) return NotFinite("the loss", value);
  BeforeBackward(is_last);
  if (weight != 1) loss = loss * weight;
  loss.backward();
  SW_RETURN_IF_ERROR(EndPass());
  return value;
}

absl::StatusOr<double> TorchStrategy::ClipGradients() {
  const double limit = options_.clip_gradient_norm;
  if (limit <= 0) return 0.0;
  c10::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients, counted;
  for (const SteppedParameter& parameter : optimizer_->parameters()) {
    const at::Tensor& gradient = parameter.tensor.grad();
    if (!gradient.defined() || gradient.numel() == 0) continue;
    gradients.push_back(gradient);
    if (CountsInNorm(parameter)) counted.push_back(gradient);
  }
  SW_ASSIGN_OR_RETURN(const double squared, SumOverShards(SquaredNorm(counted)));
  const double norm = std::sqrt(squared);
  if (!std::isfinite(norm)) return NotFinite("the gradient's norm", norm);
  if (norm > limit && !gradients.empty()) at::_foreach_mul_(gradients, limit / norm);
  return norm;
}

template <typename Fn>
auto TorchStrategy::Evaluate(const Fn& fn) -> decltype(fn()) {
  using Result = decltype(fn());
  SW_RETURN_IF_ERROR(CheckUsable());
  const PooledTensorMemory pooled(after_step());
  Result result = CallTorch([&]() -> Result {
    c10::NoGradGuard no_grad;
    const EvalMode eval(*module_);
    SW_RETURN_IF_ERROR(BeginPass());
    const Autocast autocast(options_.compute_dtype, context_.device);
    Result value = fn();
    SW_RETURN_IF_ERROR(value.status());
    SW_RETURN_IF_ERROR(EndPass());
    return value;
  });
  if (!result.ok()) GiveUp();
  return result;
}

absl::StatusOr<std::map<std::string, double>> TorchStrategy::ValidationStep(const Batch& batch) {
  using Metrics = absl::StatusOr<std::map<std::string, double>>;
  return Evaluate([&]() -> Metrics { return module_->ValidationStep(batch); });
}

absl::StatusOr<std::vector<int32_t>> TorchStrategy::Generate(const std::vector<int32_t>& prompt, int64_t count,
                                                             double temperature, uint64_t seed) {
  return Evaluate([&] { return module_->Generate(prompt, count, temperature, seed); });
}

LocalState TorchStrategy::State() const {
  LocalState state;
  for (const HeldTensor& held : held_) {
    state.push_back(ToLocalTensor(held.meta, held.box, held.tensor));
    state.back().alias_of = held.alias_of;
  }
  for (LocalTensor& tensor : optimizer_->State()) state.push_back(std::move(tensor));
  return state;
}

OwnedState TorchStrategy::Owned(const LocalState& state) {
  return {
      .strategy = name_,
      .rule = RuleOf(name_),
      .threads = threads(),
      .on_save = [this](Value::Map& extras) { return CallTorch([&] { return module_->OnSaveCheckpoint(extras); }); },
      .on_load = [this](LoadView& view) { return CallTorch([&] { return module_->OnLoadCheckpoint(view); }); },
      .optimizer = optimizer_->spec(),
      .state = state};
}

absl::StatusOr<SaveReport> TorchStrategy::Save(const SaveRequest& request) {
  SW_RETURN_IF_ERROR(CheckUsable());
  ++captures_;
  TensorPages().ReturnKept();  // saving stages its bytes in what is free
  SW_RETURN_IF_ERROR(CallTorch([&] { SynchronizeDevice(context_.device); })) << "saving " << request.path;
  const LocalState state = State();
  return SaveState(context_, options_, Owned(state), request);
}

absl::StatusOr<LoadResult> TorchStrategy::Load(const LoadRequest& request) {
  if (optimizer_ == nullptr) return absl::FailedPreconditionError("the strategy is not set up");
  TensorPages().ReturnKept();  // so does loading
  SW_RETURN_IF_ERROR(CallTorch([&] { SynchronizeDevice(context_.device); })) << "loading " << request.path;
  const LocalState state = State();
  SW_ASSIGN_OR_RETURN(PreparedLoad prepared, PrepareLoad(context_, options_, Owned(state), request));
  bool changed = false;
  absl::StatusOr<LoadReport> report = ExecuteLoad(context_, prepared, state, request, changed);
  if (!report.ok()) {
    if (changed) {
      unusable_ = absl::FailedPreconditionError(absl::StrCat("the state is half loaded from ", request.path, " (",
                                                             report.status().message(),
                                                             "): load a checkpoint before going on"));
    }
    return report.status();
  }
  if (request.weights_only) optimizer_->Reset();
  // What was skipped may still be half of the load that failed.
  if (prepared.skipped.empty()) unusable_ = absl::OkStatus();
  return LoadResult{.manifest = prepared.view->shared_manifest(),
                    .report = *std::move(report),
                    .skipped = std::move(prepared.skipped),
                    .notes = std::move(prepared.notes)};
}

uint64_t TorchStrategy::ResidentBytes() const {
  uint64_t bytes = 0;
  if (optimizer_ == nullptr) return bytes;
  for (const LocalTensor& tensor : State()) {
    if (tensor.alias_of.empty()) bytes += tensor.bytes();
  }
  return bytes;
}

Value::Map TorchStrategy::RandomState() const {
  return TorchRandomState(context_.device);
}

absl::Status TorchStrategy::SetRandomState(const Value::Map& state) {
  return SetTorchRandomState(state, context_.device);
}

void TorchStrategy::ReseedRandom(int64_t step) {
  ReseedTorchRandom(options_.seed, step, context_.groups->rank(), context_.device);
}

int32_t TorchStrategy::threads() const {
  return at::get_num_threads();
}

}  // namespace shardwright
