#include "shardwright/core/module/optimizer_spec.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/nearest.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

template <typename Kind>
using Names = std::vector<std::pair<Kind, std::string>>;

const Names<OptimizerKind>& OptimizerNames() {
  static const auto* names = new Names<OptimizerKind>{
      {OptimizerKind::kAdamW, "adamw"}, {OptimizerKind::kAdam, "adam"}, {OptimizerKind::kSgd, "sgd"}};
  return *names;
}

const Names<ScheduleKind>& ScheduleNames() {
  static const auto* names = new Names<ScheduleKind>{
      {ScheduleKind::kConstant, "constant"}, {ScheduleKind::kLinear, "linear"}, {ScheduleKind::kCosine, "cosine"}};
  return *names;
}

template <typename Kind>
absl::string_view NameOf(const Names<Kind>& names, Kind kind) {
  for (const auto& [known, name] : names) {
    if (known == kind) return name;
  }
  return "unknown";
}

template <typename Kind>
absl::StatusOr<Kind> Parse(const Names<Kind>& names, absl::string_view what, absl::string_view text) {
  std::vector<std::string> known;
  for (const auto& [kind, name] : names) {
    if (name == text) return kind;
    known.push_back(name);
  }
  const std::string nearest = NearestName(text, known);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown ", what, " \"", text, "\"", nearest.empty() ? "" : absl::StrCat(", did you mean \"", nearest, "\"?"),
      " (known: ", absl::StrJoin(known, ", "), ")"));
}

bool IsAdam(OptimizerKind kind) {
  return kind == OptimizerKind::kAdamW || kind == OptimizerKind::kAdam;
}

// Written so that NaN fails.
absl::Status CheckRange(absl::string_view name, double value, bool good, absl::string_view expected) {
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", expected ", expected));
}

absl::Status CheckHyperparameters(OptimizerKind kind, const OptimizerHyperparameters& h) {
  const auto non_negative = [](double value) { return value >= 0 && std::isfinite(value); };
  SW_RETURN_IF_ERROR(CheckRange("learning_rate", h.learning_rate, non_negative(h.learning_rate), "at least 0"));
  SW_RETURN_IF_ERROR(CheckRange("weight_decay", h.weight_decay, non_negative(h.weight_decay), "at least 0"));
  if (IsAdam(kind)) {
    SW_RETURN_IF_ERROR(CheckRange("beta1", h.beta1, h.beta1 >= 0 && h.beta1 < 1, "at least 0 and below 1"));
    SW_RETURN_IF_ERROR(CheckRange("beta2", h.beta2, h.beta2 >= 0 && h.beta2 < 1, "at least 0 and below 1"));
    SW_RETURN_IF_ERROR(CheckRange("epsilon", h.epsilon, h.epsilon > 0 && std::isfinite(h.epsilon), "above 0"));
    return absl::OkStatus();
  }
  SW_RETURN_IF_ERROR(CheckRange("momentum", h.momentum, non_negative(h.momentum), "at least 0"));
  if (h.nesterov && h.momentum == 0) return absl::InvalidArgumentError("nesterov needs a momentum above 0");
  return absl::OkStatus();
}

absl::Status CheckSchedule(const LearningRateSchedule& schedule) {
  if (schedule.warmup_steps < 0 || schedule.total_steps < 0) {
    return absl::InvalidArgumentError(absl::StrCat("warmup_steps is ", schedule.warmup_steps, " and total_steps ",
                                                   schedule.total_steps, ", expected at least 0"));
  }
  const double factor = schedule.final_factor;
  return CheckRange("final_factor", factor, factor >= 0 && std::isfinite(factor), "at least 0");
}

}  // namespace

absl::string_view OptimizerKindName(OptimizerKind kind) {
  return NameOf(OptimizerNames(), kind);
}

absl::StatusOr<OptimizerKind> ParseOptimizerKind(absl::string_view name) {
  return Parse(OptimizerNames(), "optimizer", name);
}

absl::string_view ScheduleKindName(ScheduleKind kind) {
  return NameOf(ScheduleNames(), kind);
}

absl::StatusOr<ScheduleKind> ParseScheduleKind(absl::string_view name) {
  return Parse(ScheduleNames(), "schedule", name);
}

double ScheduleFactor(const LearningRateSchedule& schedule, int64_t step) {
  const int64_t warmup = schedule.warmup_steps;
  // One more than warm-up in the divisor: the first step is not wasted on a rate of 0, and step `warmup` gets the whole
  // rate.
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  if (schedule.kind == ScheduleKind::kConstant || schedule.total_steps <= warmup) return 1.0;
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(schedule.total_steps - warmup));
  const double remaining =
      schedule.kind == ScheduleKind::kLinear ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return schedule.final_factor + (1.0 - schedule.final_factor) * remaining;
}

std::vector<std::string> OptimizerSlots(const OptimizerSpec& spec, const OptimizerHyperparameters& hyperparameters) {
  if (IsAdam(spec.kind)) return {"exp_avg", "exp_avg_sq", "step"};
  if (hyperparameters.momentum != 0) return {"momentum_buffer"};
  return {};
}

TensorMeta OptimizerTensorMeta(const TensorMeta& parameter, absl::string_view slot, int32_t index) {
  TensorMeta meta;
  meta.role = Role::kOptimizer;
  meta.optimizer = {.index = index, .parameter = parameter.name, .slot = std::string(slot)};
  meta.name = OptimizerTensorName(meta.optimizer);
  const bool is_count = slot == "step";
  meta.dtype = is_count ? DType::kFloat32 : parameter.dtype;
  if (!is_count) meta.shape = parameter.shape;
  return meta;
}

absl::Status ValidateOptimizerSpec(const OptimizerSpec& spec, const std::vector<std::string>& trainable_parameters) {
  SW_RETURN_IF_ERROR(CheckSchedule(spec.schedule)) << "optimizer";
  absl::flat_hash_map<absl::string_view, int> groups_of;
  for (const std::string& name : trainable_parameters) groups_of[name] = 0;
  for (size_t i = 0; i < spec.groups.size(); ++i) {
    SW_RETURN_IF_ERROR(CheckHyperparameters(spec.kind, spec.groups[i].hyperparameters)) << "optimizer group " << i;
    for (const std::string& name : spec.groups[i].parameters) {
      const auto found = groups_of.find(name);
      if (found == groups_of.end()) {
        const std::string nearest = NearestName(name, trainable_parameters);
        return absl::InvalidArgumentError(
            absl::StrCat("optimizer group ", i, " names \"", name, "\", which is no trainable parameter",
                         nearest.empty() ? "" : absl::StrCat(", did you mean \"", nearest, "\"?")));
      }
      if (++found->second > 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("parameter \"", name, "\" is in two optimizer groups or twice in one"));
      }
    }
  }
  for (const std::string& name : trainable_parameters) {
    if (groups_of[name] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("trainable parameter \"", name, "\" is in no optimizer group: add it to one, or freeze it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace shardwright
