#include "shardwright/cli/app/inspect.h"

#include <map>
#include <set>

#include "shardwright/cli/app/locate.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright::app {
namespace {

void CollectOpaque(const Value& value, std::set<std::string>& classes) {
  if (const auto* opaque = value.get_if<OpaqueObject>()) classes.insert(opaque->global);
  if (const auto* list = value.get_if<Value::List>()) {
    for (const Value& item : *list) CollectOpaque(item, classes);
  }
  if (const auto* map = value.get_if<Value::Map>()) {
    for (const auto& [key, item] : *map) CollectOpaque(item, classes);
  }
}

std::string OptimizerKind(const Value::Map& extras) {
  const auto found = extras.find("optimizer");
  const Value::Map* optimizer = found == extras.end() ? nullptr : found->second.get_if<Value::Map>();
  if (optimizer == nullptr || optimizer->count("kind") == 0) return "";
  const std::string* kind = optimizer->at("kind").get_if<std::string>();
  return kind == nullptr ? "" : *kind;
}

void CountTensor(const TensorEntry& entry, std::map<std::pair<Role, DType>, TensorGroup>& groups, Inspection& result) {
  if (!entry.alias_of.empty()) {
    result.tied.emplace_back(entry.meta.name, entry.alias_of);
    return;
  }
  TensorGroup& group = groups[{entry.meta.role, entry.meta.dtype}];
  group.role = entry.meta.role;
  group.dtype = entry.meta.dtype;
  ++group.tensors;
  group.elements += entry.meta.elements();
  group.bytes += static_cast<uint64_t>(entry.meta.bytes());
  for (const ShardMeta& shard : entry.shards) {
    if (shard.length_bytes > 0 && shard.chunk_crc32c.empty()) result.has_checksums = false;
  }
}

}  // namespace

absl::StatusOr<Inspection> Inspect(Storage& storage, absl::string_view path) {
  SW_ASSIGN_OR_RETURN(LocatedCheckpoint located, LocateCheckpoint(storage, path));
  Inspection result;
  result.path = located.path;
  result.manifest = located.manifest;
  std::map<std::pair<Role, DType>, TensorGroup> groups;
  for (const TensorEntry& entry : result.manifest->tensors()) CountTensor(entry, groups, result);
  for (const auto& [key, group] : groups) {
    result.groups.push_back(group);
    if (group.role != Role::kParameter) continue;
    result.parameters += group.elements;
    result.parameter_tensors += group.tensors;
  }
  std::set<std::string> classes;
  for (const auto& [key, value] : result.manifest->data().extras) CollectOpaque(value, classes);
  result.opaque.assign(classes.begin(), classes.end());
  result.optimizer = OptimizerKind(result.manifest->data().extras);
  return result;
}

}  // namespace shardwright::app
