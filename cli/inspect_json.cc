#include "shardwright/cli/inspect_json.h"

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"

namespace shardwright::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(absl::string_view text) {
  return std::string(text);
}

absl::string_view RoleName(Role role) {
  switch (role) {
    case Role::kParameter:
      return "parameter";
    case Role::kBuffer:
      return "buffer";
    case Role::kOptimizer:
      return "optimizer";
    case Role::kState:
      return "state";
  }
  return "unknown";
}

// What JSON has no type for becomes an object with one key that begins with '$'.
struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool v) const { return v; }
  Json operator()(int64_t v) const { return v; }
  Json operator()(double v) const { return v; }
  Json operator()(const std::string& v) const { return v; }
  Json operator()(const Bytes& v) const { return {{"$bytes", v.data.size()}}; }
  Json operator()(const TensorReference& v) const { return {{"$tensor", v.name}}; }
  Json operator()(const OpaqueObject& v) const { return {{"$opaque", v.global}}; }
  Json operator()(const Value::List& list) const {
    Json out = Json::array();
    for (const Value& item : list) out.push_back(std::visit(*this, item.variant()));
    return out;
  }
  Json operator()(const Value::Map& map) const {
    Json out = Json::object();
    for (const auto& [key, item] : map) out[key] = std::visit(*this, item.variant());
    return out;
  }
};

Json ShardJson(const ShardMeta& shard, const Manifest& manifest) {
  return {{"offset", shard.box.offset},
          {"size", shard.box.size},
          {"file", manifest.files()[shard.file].path},
          {"offset_bytes", shard.offset_bytes},
          {"length_bytes", shard.length_bytes}};
}

Json TensorJson(const TensorEntry& entry, const Manifest& manifest) {
  Json out = {{"name", entry.meta.name},
              {"dtype", Text(DTypeName(entry.meta.dtype))},
              {"shape", entry.meta.shape},
              {"role", Text(RoleName(entry.meta.role))}};
  if (!entry.alias_of.empty()) out["alias_of"] = entry.alias_of;
  if (entry.meta.role == Role::kParameter) out["trainable"] = entry.meta.trainable;
  if (entry.meta.role == Role::kOptimizer) {
    out["optimizer"] = {{"index", entry.meta.optimizer.index},
                        {"parameter", entry.meta.optimizer.parameter},
                        {"slot", entry.meta.optimizer.slot}};
  }
  out["shards"] = Json::array();
  for (const ShardMeta& shard : entry.shards) out["shards"].push_back(ShardJson(shard, manifest));
  return out;
}

}  // namespace

std::string InspectionToJson(const app::Inspection& seen) {
  const Manifest& manifest = *seen.manifest;
  const ManifestData& data = manifest.data();
  Json out = {
      {"schema", "shardwright.inspect.v1"},
      {"path", seen.path},
      {"format", "native"},
      {"format_version", data.format_version},
      {"writer", data.writer},
      {"layout", Text(SaveLayoutName(data.layout))},
      {"progress",
       {{"step", data.progress.step}, {"epoch", data.progress.epoch}, {"samples_seen", data.progress.samples_seen}}},
      {"topology",
       {{"world_size", data.topology.world_size},
        {"ranks_per_node", data.topology.ranks_per_node},
        {"strategy", data.topology.strategy},
        {"threads_per_rank", data.topology.threads_per_rank}}},
      {"load_order", Text(LoadModeName(data.load_order.mode))},
      {"checksums", seen.has_checksums},
      {"parameters", seen.parameters},
      {"total_bytes", manifest.TotalBytes()}};
  out["files"] = Json::array();
  for (const FileMeta& file : manifest.files())
    out["files"].push_back({{"path", file.path}, {"size_bytes", file.size_bytes}});
  out["tensors"] = Json::array();
  for (const TensorEntry& entry : manifest.tensors()) out["tensors"].push_back(TensorJson(entry, manifest));
  out["extras"] = ToJson()(data.extras);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardwright::cli
