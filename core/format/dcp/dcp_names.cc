#include "shardwright/core/format/dcp/dcp_names.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "shardwright/core/format/torch/naming.h"

namespace shardwright::dcp {
namespace {

constexpr absl::string_view kStatePrefix = "state.";
// Under which keys training scripts put the model.
constexpr absl::string_view kModelKeys[] = {"model", "state_dict", "module", "model_state_dict", "net", "ema"};

std::string JoinParts(const std::vector<PathPart>& path, size_t begin) {
  std::vector<absl::string_view> keys;
  for (size_t i = begin; i < path.size(); ++i) keys.push_back(path[i].key);
  return absl::StrJoin(keys, ".");
}

bool IsOptimizerKey(absl::string_view key) {
  return absl::StartsWith(key, "optim") || absl::EndsWith(key, "optimizer") || absl::EndsWith(key, "optim");
}

// "optimizer_1" -> 1
int32_t OptimizerIndex(absl::string_view key) {
  const size_t at = key.find_last_not_of("0123456789");
  int32_t index = 0;
  if (at == absl::string_view::npos || !absl::SimpleAtoi(key.substr(at + 1), &index)) return 0;
  return index;
}

// "state.<parameter>.<slot>", as flattened optimizers name it.
std::optional<OptimizerField> ParseFlat(absl::string_view text, int32_t index) {
  const size_t dot = text.rfind('.');
  if (!absl::ConsumePrefix(&text, kStatePrefix) || dot == absl::string_view::npos || dot <= kStatePrefix.size()) {
    return std::nullopt;
  }
  const size_t end = dot - kStatePrefix.size();
  return OptimizerField{index, std::string(text.substr(0, end)), std::string(text.substr(end + 1))};
}

std::optional<OptimizerField> ParseField(const std::vector<PathPart>& path, bool flat_optimizer) {
  for (size_t i = 0; i < path.size(); ++i) {
    const bool under_optimizer = i > 0 && (IsOptimizerKey(path[i - 1].key) ||
                                           (i > 1 && path[i - 1].is_index && IsOptimizerKey(path[i - 2].key)));
    if (!under_optimizer && !(i == 0 && flat_optimizer)) continue;
    const int32_t index = i == 0 ? 0 : OptimizerIndex(path[i - 1].key);
    if (path[i].key == "state" && path.size() >= i + 3) {
      return OptimizerField{index, path[i + 1].key, JoinParts(path, i + 2)};
    }
    if (std::optional<OptimizerField> field = ParseFlat(JoinParts(path, i), index)) return field;
  }
  return std::nullopt;
}

// A flattened optimizer at the top of the checkpoint: its groups are beside its state.
bool HasFlatOptimizer(const Metadata& metadata) {
  return std::any_of(metadata.bytes.begin(), metadata.bytes.end(),
                     [](const std::string& name) { return absl::StartsWith(name, "param_groups."); });
}

// Names of weights by what optimizers call them: the name itself, or its end behind a dot, where that is of one only.
class WeightFinder {
 public:
  void Add(const std::string& name) {
    all_.insert(name);
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      const auto [place, is_new] = by_end_.try_emplace(name.substr(dot + 1), name);
      if (!is_new) place->second.clear();
    }
  }

  std::string Find(const std::string& parameter) const {
    if (all_.count(parameter) > 0) return parameter;
    const auto found = by_end_.find(parameter);
    return found == by_end_.end() || found->second.empty() ? parameter : found->second;
  }

 private:
  std::set<std::string> all_;
  absl::flat_hash_map<std::string, std::string> by_end_;
};

// What a Lightning trainer puts before a module's own names.
std::string WithoutTrainerPrefix(const std::string& name) {
  absl::string_view rest = name;
  if (absl::ConsumePrefix(&rest, "state_dict.") || absl::ConsumePrefix(&rest, "model.")) return std::string(rest);
  return name;
}

}  // namespace

std::vector<PathPart> PathOf(const Metadata& metadata, const std::string& name) {
  const auto found = metadata.paths.find(name);
  if (found != metadata.paths.end() && !found->second.empty()) return found->second;
  return {{name, false}};
}

std::map<std::string, TensorMeta> NameTensors(const Metadata& metadata, bool lightning) {
  const bool flat_optimizer = HasFlatOptimizer(metadata);
  std::set<std::string> model_keys;
  for (const auto& [name, tensor] : metadata.tensors) {
    const std::vector<PathPart> path = PathOf(metadata, name);
    const bool known = std::find(std::begin(kModelKeys), std::end(kModelKeys), path[0].key) != std::end(kModelKeys);
    if (known && path.size() > 1) model_keys.insert(path[0].key);
  }
  std::map<std::string, TensorMeta> metas;
  WeightFinder weights;
  for (const auto& [name, tensor] : metadata.tensors) {
    TensorMeta& meta = metas[name];
    const std::vector<PathPart> path = PathOf(metadata, name);
    meta.name = lightning ? WithoutTrainerPrefix(name) : name;
    meta.dtype = tensor.dtype;
    meta.shape = tensor.shape;
    if (std::optional<OptimizerField> field = ParseField(path, flat_optimizer)) {
      meta.role = Role::kOptimizer;
      meta.optimizer = *std::move(field);
    } else if (!model_keys.empty() && model_keys.count(path[0].key) == 0) {
      meta.role = Role::kState;
      meta.name = name;
    } else {
      meta.role = torch_format::GuessRole(name, tensor.dtype);
      meta.trainable = meta.role == Role::kParameter;
      weights.Add(meta.name);
    }
  }
  for (auto& [name, meta] : metas) {
    if (meta.role != Role::kOptimizer) continue;
    meta.optimizer.parameter = weights.Find(meta.optimizer.parameter);
    meta.name = lightning ? OptimizerTensorName(meta.optimizer) : name;
  }
  return metas;
}

}  // namespace shardwright::dcp
