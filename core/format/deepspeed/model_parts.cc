#include "shardwright/core/format/deepspeed/model_parts.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace shardwright::deepspeed {
namespace {

void AddWhole(CheckpointBuilder& builder, const std::string& name, const Whole& whole, Role role) {
  if (builder.HasTensor(name)) return;
  TensorMeta meta;
  meta.name = name;
  meta.dtype = whole.dtype;
  meta.shape = whole.shape();
  meta.role = role;
  meta.trainable = false;
  builder.AddTensor(std::move(meta), {whole.piece});
}

// A group's "params" are indices of groups in the file; a reader wants the parameters' names.
Value WithNames(const Value& group, const std::vector<std::vector<Parameter>>& groups) {
  const auto* map = group.get_if<Value::Map>();
  if (map == nullptr) return group;
  Value::Map named = *map;
  const auto params = named.find("params");
  const auto* indices = params == named.end() ? nullptr : params->second.get_if<Value::List>();
  if (indices == nullptr) return group;
  Value::List names;
  for (const Value& index : *indices) {
    const int64_t* at = index.get_if<int64_t>();
    if (at == nullptr || *at < 0 || *at >= static_cast<int64_t>(groups.size())) return group;
    for (const Parameter& parameter : groups[static_cast<size_t>(*at)]) names.emplace_back(parameter.name);
  }
  params->second = std::move(names);
  return named;
}

int64_t CountOf(const Value::Map& extras, const std::string& key) {
  const auto found = extras.find(key);
  const int64_t* count = found == extras.end() ? nullptr : found->second.get_if<int64_t>();
  return count == nullptr ? 0 : std::max<int64_t>(*count, 0);
}

}  // namespace

void AddBuffers(CheckpointBuilder& builder, const ModelState& model) {
  const std::set<std::string> buffers(model.buffers.begin(), model.buffers.end());
  for (const auto& [name, whole] : model.module) {
    if (buffers.count(name) > 0) AddWhole(builder, name, whole, Role::kBuffer);
  }
}

void AddFrozen(CheckpointBuilder& builder, const ModelState& model) {
  for (const auto& [name, whole] : model.frozen) AddWhole(builder, name, whole, Role::kParameter);
}

absl::Status AddShared(CheckpointBuilder& builder, const ModelState& model) {
  for (const auto& [alias, source] : model.shared) {
    if (builder.HasTensor(alias)) continue;
    const TensorMeta* target = builder.FindTensor(source);
    if (target == nullptr) {
      return absl::DataLossError(absl::StrCat("\"", absl::CHexEscape(alias), "\" is a second name of \"",
                                              absl::CHexEscape(source), "\", which is not there"));
    }
    TensorMeta meta = *target;
    meta.name = alias;
    builder.AddAlias(std::move(meta), source);
  }
  return absl::OkStatus();
}

void AddRest(CheckpointBuilder& builder, const ModelState& model) {
  for (const auto& [name, whole] : model.module) AddWhole(builder, name, whole, Role::kParameter);
}

void AddExtras(CheckpointBuilder& builder, const ModelState& model, const Value& param_groups) {
  builder.extras() = model.extras;
  builder.data().progress.step = CountOf(model.extras, "global_steps");
  builder.data().progress.samples_seen = CountOf(model.extras, "global_samples");
  const auto* groups = param_groups.get_if<Value::List>();
  if (groups == nullptr) return;
  Value::List named;
  for (const Value& group : *groups) named.push_back(WithNames(group, model.groups));
  builder.extras().insert_or_assign("optimizer", Value::Map{{"param_groups", std::move(named)}});
}

}  // namespace shardwright::deepspeed
