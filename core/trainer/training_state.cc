#include "shardwright/core/trainer/training_state.h"

#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

constexpr char kTrainer[] = "trainer";
constexpr char kSeed[] = "seed";
constexpr char kData[] = "data";
constexpr char kSamples[] = "samples";
constexpr char kBatchSize[] = "batch_size";
constexpr char kAccumulateSteps[] = "accumulate_steps";
constexpr char kFixedConfig[] = "fixed_config";
constexpr char kCallbacks[] = "callbacks";
constexpr char kRandom[] = "random";

// Null if it is absent or has another type.
template <typename T>
const T* FindAs(const Value::Map& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : found->second.get_if<T>();
}

template <typename T>
absl::Status Take(const Value::Map& map, const std::string& key, T& out) {
  const T* value = FindAs<T>(map, key);
  if (value == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("its training state has no \"", key, "\" that this version understands"));
  }
  out = *value;
  return absl::OkStatus();
}

struct ValuePrinter {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return absl::StrCat(v); }
  std::string operator()(double v) const { return absl::StrCat(v); }
  std::string operator()(const std::string& v) const { return v.empty() ? "\"\"" : v; }
  std::string operator()(const Bytes& v) const { return absl::StrCat(v.data.size(), " bytes"); }
  std::string operator()(const TensorReference& v) const { return absl::StrCat("tensor ", v.name); }
  std::string operator()(const OpaqueObject& v) const { return absl::StrCat("object ", v.global); }
  std::string operator()(const Value::List& list) const {
    return absl::StrCat("[", absl::StrJoin(list, ", ", &Append), "]");
  }
  std::string operator()(const Value::Map& map) const {
    return absl::StrCat("{", absl::StrJoin(map, ", ", absl::PairFormatter(absl::AlphaNumFormatter(), ": ", &Append)),
                        "}");
  }
  static void Append(std::string* out, const Value& value) { out->append(std::visit(ValuePrinter(), value.variant())); }
};

std::string TextOf(const Value::Map& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? "not set" : std::visit(ValuePrinter(), found->second.variant());
}

// Nested maps by dotted keys: "model_options.n_layer".
void Flatten(const std::string& prefix, const Value::Map& map, Value::Map& flat) {
  for (const auto& [key, value] : map) {
    const auto* inner = value.get_if<Value::Map>();
    if (inner == nullptr)
      flat[prefix + key] = value;
    else
      Flatten(absl::StrCat(prefix, key, "."), *inner, flat);
  }
}

// What must be equal, as one map, so that one comparison names everything.
Value::Map MustBeEqual(const TrainingState& state) {
  Value::Map map;
  Flatten("", state.fixed_config, map);
  map["seed"] = absl::StrCat(state.seed);
  map["data"] = state.data;
  map["samples of an epoch"] = state.samples;
  return map;
}

}  // namespace

Value::Map ToExtras(const TrainingState& state) {
  // Values have no unsigned integer: the seed's 64 bits are kept as they are.
  return {{kTrainer, Value::Map{{kSeed, static_cast<int64_t>(state.seed)},
                                {kData, state.data},
                                {kSamples, state.samples},
                                {kBatchSize, state.batch_size},
                                {kAccumulateSteps, state.accumulate_steps},
                                {kFixedConfig, state.fixed_config},
                                {kCallbacks, state.callbacks}}}};
}

Value::Map ToRankExtras(const Value::Map& random_state) {
  return {{kTrainer, Value::Map{{kRandom, random_state}}}};
}

absl::StatusOr<TrainingState> TrainingStateOf(const Manifest& manifest) {
  const auto* map = FindAs<Value::Map>(manifest.data().extras, kTrainer);
  if (map == nullptr) {
    return absl::InvalidArgumentError("it has no training state; start from its weights alone with --init_from");
  }
  TrainingState state;
  int64_t seed = 0;
  SW_RETURN_IF_ERROR(Take(*map, kSeed, seed));
  state.seed = static_cast<uint64_t>(seed);
  SW_RETURN_IF_ERROR(Take(*map, kData, state.data));
  SW_RETURN_IF_ERROR(Take(*map, kSamples, state.samples));
  SW_RETURN_IF_ERROR(Take(*map, kBatchSize, state.batch_size));
  SW_RETURN_IF_ERROR(Take(*map, kAccumulateSteps, state.accumulate_steps));
  SW_RETURN_IF_ERROR(Take(*map, kFixedConfig, state.fixed_config));
  SW_RETURN_IF_ERROR(Take(*map, kCallbacks, state.callbacks));
  return state;
}

std::optional<Value::Map> RandomStateOf(const Manifest& manifest, int32_t rank) {
  const std::vector<Value::Map>& ranks = manifest.data().rank_extras;
  if (rank < 0 || rank >= static_cast<int32_t>(ranks.size())) return std::nullopt;
  const auto* trainer = FindAs<Value::Map>(ranks[rank], kTrainer);
  const auto* random = trainer == nullptr ? nullptr : FindAs<Value::Map>(*trainer, kRandom);
  return random == nullptr ? std::nullopt : std::optional<Value::Map>(*random);
}

absl::Status CheckContinues(const TrainingState& saved, const TrainingState& current) {
  const Value::Map was = MustBeEqual(saved);
  const Value::Map is = MustBeEqual(current);
  std::set<std::string> keys;
  for (const auto& [key, value] : was) keys.insert(key);
  for (const auto& [key, value] : is) keys.insert(key);
  std::vector<std::string> differences;
  for (const std::string& key : keys) {
    if (was.contains(key) && is.contains(key) && was.at(key) == is.at(key)) continue;
    differences.push_back(absl::StrCat(key, ": saved ", TextOf(was, key), ", given ", TextOf(is, key)));
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("this run differs from the one that it would continue: ", absl::StrJoin(differences, "; "),
                   "; give the saved values, or start anew with --resume=none or in another run directory"));
}

std::vector<std::string> AllowedChanges(const TrainingState& saved, const TrainingState& current) {
  std::vector<std::string> changes;
  const auto compare = [&](absl::string_view what, int64_t was, int64_t is) {
    if (was != is) changes.push_back(absl::StrCat(what, " was ", was, ", is ", is, " from here on"));
  };
  compare("batch_size", saved.batch_size, current.batch_size);
  compare("accumulate_steps", saved.accumulate_steps, current.accumulate_steps);
  return changes;
}

}  // namespace shardwright
