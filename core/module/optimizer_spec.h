// What an optimizer is, as data: the strategy allocates its state on its own boxes and steps it.
#ifndef SHARDWRIGHT_CORE_MODULE_OPTIMIZER_SPEC_H_
#define SHARDWRIGHT_CORE_MODULE_OPTIMIZER_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/manifest/tensor_meta.h"

namespace shardwright {

enum class OptimizerKind { kAdamW, kAdam, kSgd };
absl::string_view OptimizerKindName(OptimizerKind kind);
absl::StatusOr<OptimizerKind> ParseOptimizerKind(absl::string_view name);

struct OptimizerHyperparameters {
  double learning_rate = 1e-3;
  double beta1 = 0.9;     // Adam, AdamW
  double beta2 = 0.999;   // Adam, AdamW
  double epsilon = 1e-8;  // Adam, AdamW
  double weight_decay = 0.0;
  double momentum = 0.0;  // SGD; 0: no momentum buffer
  bool nesterov = false;  // SGD
  friend bool operator==(const OptimizerHyperparameters&, const OptimizerHyperparameters&) = default;
};

// Parameters that share hyperparameters, by true name.
struct ParameterGroup {
  std::vector<std::string> parameters;
  OptimizerHyperparameters hyperparameters;
  friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

enum class ScheduleKind { kConstant, kLinear, kCosine };
absl::string_view ScheduleKindName(ScheduleKind kind);
absl::StatusOr<ScheduleKind> ParseScheduleKind(absl::string_view name);

// Factor on every group's learning rate: linear warm-up to 1 over warmup_steps, then constant, or linear or cosine
// decay to `final_factor` at total_steps. Without steps to decay over (total_steps <= warmup_steps) it stays at 1.
struct LearningRateSchedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  double final_factor = 0.1;
  friend bool operator==(const LearningRateSchedule&, const LearningRateSchedule&) = default;
};
// `step`: finished optimizer steps; the factor for the next one.
double ScheduleFactor(const LearningRateSchedule& schedule, int64_t step);

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  std::vector<ParameterGroup> groups;
  LearningRateSchedule schedule;
  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

// Slot names of the state tensors that one parameter has: {"exp_avg", "exp_avg_sq", "step"}, {"momentum_buffer"}, {}.
// The count of steps is state like the moments: a parameter that joins later starts its own.
std::vector<std::string> OptimizerSlots(const OptimizerSpec& spec, const OptimizerHyperparameters& hyperparameters);

// Name and metadata of one slot: shaped like the parameter and of its dtype, but for "step", a float32 scalar.
TensorMeta OptimizerTensorMeta(const TensorMeta& parameter, absl::string_view slot, int32_t index = 0);

// kInvalidArgument unless each trainable parameter is in exactly one group, groups name nothing else, and
// hyperparameters are in their ranges.
absl::Status ValidateOptimizerSpec(const OptimizerSpec& spec, const std::vector<std::string>& trainable_parameters);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_OPTIMIZER_SPEC_H_
