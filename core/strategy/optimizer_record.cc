#include "shardwright/core/strategy/optimizer_record.h"

#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shardwright {
namespace {

struct Field {
  const char* name;
  double OptimizerHyperparameters::*member;
};
constexpr Field kFields[] = {
    {"learning_rate", &OptimizerHyperparameters::learning_rate},
    {"beta1", &OptimizerHyperparameters::beta1},
    {"beta2", &OptimizerHyperparameters::beta2},
    {"epsilon", &OptimizerHyperparameters::epsilon},
    {"weight_decay", &OptimizerHyperparameters::weight_decay},
    {"momentum", &OptimizerHyperparameters::momentum},
};

Value::Map RecordHyperparameters(const OptimizerHyperparameters& hyperparameters) {
  Value::Map record;
  for (const Field& field : kFields) record[field.name] = hyperparameters.*field.member;
  record["nesterov"] = hyperparameters.nesterov;
  return record;
}

Value::Map RecordSchedule(const LearningRateSchedule& schedule) {
  return {{"kind", std::string(ScheduleKindName(schedule.kind))},
          {"warmup_steps", schedule.warmup_steps},
          {"total_steps", schedule.total_steps},
          {"final_factor", schedule.final_factor}};
}

// Null unless `map` has `key` with a value of that type.
template <typename T>
const T* Get(const Value::Map& map, const char* key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : found->second.get_if<T>();
}

std::string ToText(const Value& value) {
  if (const auto* number = value.get_if<double>()) return absl::StrCat(*number);
  if (const auto* count = value.get_if<int64_t>()) return absl::StrCat(*count);
  if (const auto* flag = value.get_if<bool>()) return *flag ? "true" : "false";
  if (const auto* text = value.get_if<std::string>()) return *text;
  return "unset";
}

// Parameter name -> its group in the record.
std::map<std::string, const Value::Map*> GroupsByParameter(const Value::Map& record) {
  std::map<std::string, const Value::Map*> groups;
  const auto* list = Get<Value::List>(record, "groups");
  if (list == nullptr) return groups;
  for (const Value& item : *list) {
    const auto* group = item.get_if<Value::Map>();
    const auto* names = group == nullptr ? nullptr : Get<Value::List>(*group, "parameters");
    if (names == nullptr) continue;
    for (const Value& name : *names) {
      if (const auto* text = name.get_if<std::string>()) groups[*text] = group;
    }
  }
  return groups;
}

// "x was a, is b" for each key of `now` that `was` has otherwise.
std::vector<std::string> Changes(const Value::Map& was, const Value::Map& now) {
  std::vector<std::string> changes;
  for (const auto& [key, value] : now) {
    const auto old = was.find(key);
    if (old == was.end() || old->second == value) continue;
    changes.push_back(absl::StrCat(key, " was ", ToText(old->second), ", is ", ToText(value)));
  }
  return changes;
}

}  // namespace

Value::Map RecordOptimizer(const OptimizerSpec& spec) {
  Value::List groups;
  for (const ParameterGroup& group : spec.groups) {
    Value::Map record = RecordHyperparameters(group.hyperparameters);
    record["parameters"] = Value::List(group.parameters.begin(), group.parameters.end());
    groups.emplace_back(std::move(record));
  }
  return {{"kind", std::string(OptimizerKindName(spec.kind))},
          {"groups", std::move(groups)},
          {"schedule", RecordSchedule(spec.schedule)}};
}

absl::StatusOr<std::vector<std::string>> CompareOptimizer(const Value::Map& record, const OptimizerSpec& spec) {
  const auto* kind = Get<std::string>(record, "kind");
  if (kind != nullptr && *kind != OptimizerKindName(spec.kind)) {
    return absl::InvalidArgumentError(absl::StrCat("the checkpoint holds the optimizer state of ", *kind,
                                                   ", this run uses ", OptimizerKindName(spec.kind), ": go on with ",
                                                   *kind, ", or load the weights only"));
  }
  std::map<std::string, int64_t> parameters_by_change;
  const auto groups = GroupsByParameter(record);
  for (const ParameterGroup& group : spec.groups) {
    const Value::Map now = RecordHyperparameters(group.hyperparameters);
    for (const std::string& name : group.parameters) {
      const auto found = groups.find(name);
      if (found == groups.end()) continue;
      for (const std::string& change : Changes(*found->second, now)) ++parameters_by_change[change];
    }
  }
  std::vector<std::string> notes;
  notes.reserve(parameters_by_change.size());
  for (const auto& [change, count] : parameters_by_change) {
    notes.push_back(absl::StrCat("optimizer: ", change, " (", count, count == 1 ? " parameter)" : " parameters)"));
  }
  if (const auto* schedule = Get<Value::Map>(record, "schedule")) {
    for (const std::string& change : Changes(*schedule, RecordSchedule(spec.schedule))) {
      notes.push_back(absl::StrCat("learning rate schedule: ", change));
    }
  }
  return notes;
}

}  // namespace shardwright
