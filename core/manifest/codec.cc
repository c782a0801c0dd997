#include "shardwright/core/manifest/codec.h"

#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/manifest/frame.h"
#include "shardwright/core/manifest/manifest.pb.h"

namespace shardwright {
namespace {

using ::google::protobuf::Arena;
using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedInputStream;

// A level of values takes up to three of messages: Value, ValueMap, ValueEntry.
constexpr int kMaxMessageDepth = 3 * kMaxValueDepth + 8;

// --- Values -> messages ---

void Encode(const Value& value, pb::Value& out);

void Encode(const Value::Map& map, pb::ValueMap& out) {
  for (const auto& [key, value] : map) {
    pb::ValueEntry& entry = *out.add_entries();
    entry.set_key(key);
    Encode(value, *entry.mutable_value());
  }
}

struct ValueEncoder {
  pb::Value& out;
  void operator()(std::monostate) const { out.set_null_value(true); }
  void operator()(bool v) const { out.set_bool_value(v); }
  void operator()(int64_t v) const { out.set_int_value(v); }
  void operator()(double v) const { out.set_double_value(v); }
  void operator()(const std::string& v) const { out.set_text_value(v); }
  void operator()(const Bytes& v) const { out.set_bytes_value(v.data); }
  void operator()(const TensorReference& v) const { out.set_tensor_value(v.name); }
  void operator()(const OpaqueObject& v) const { out.set_opaque_value(v.global); }
  void operator()(const Value::Map& v) const { Encode(v, *out.mutable_map_value()); }
  void operator()(const Value::List& v) const {
    pb::ValueList& list = *out.mutable_list_value();
    for (const Value& element : v) Encode(element, *list.add_values());
  }
};

void Encode(const Value& value, pb::Value& out) {
  std::visit(ValueEncoder{out}, value.variant());
}

void Encode(const ShardMeta& shard, pb::Shard& out) {
  out.mutable_box_offset()->Add(shard.box.offset.begin(), shard.box.offset.end());
  out.mutable_box_size()->Add(shard.box.size.begin(), shard.box.size.end());
  out.set_file(shard.file);
  out.set_offset_bytes(shard.offset_bytes);
  out.set_length_bytes(shard.length_bytes);
  out.mutable_chunk_crc32c()->Add(shard.chunk_crc32c.begin(), shard.chunk_crc32c.end());
  out.set_hash_high(shard.hash.high);
  out.set_hash_low(shard.hash.low);
}

void Encode(const TensorEntry& tensor, pb::Tensor& out) {
  const TensorMeta& meta = tensor.meta;
  out.set_name(meta.name);
  out.set_dtype(static_cast<uint32_t>(meta.dtype));
  out.mutable_shape()->Add(meta.shape.begin(), meta.shape.end());
  out.set_role(static_cast<uint32_t>(meta.role));
  if (meta.role == Role::kOptimizer) {
    pb::OptimizerField& field = *out.mutable_optimizer();
    field.set_index(meta.optimizer.index);
    field.set_parameter(meta.optimizer.parameter);
    field.set_slot(meta.optimizer.slot);
  }
  out.set_frozen(!meta.trainable);
  out.set_alias_of(tensor.alias_of);
  out.mutable_shards()->Reserve(static_cast<int>(tensor.shards.size()));
  for (const ShardMeta& shard : tensor.shards) Encode(shard, *out.add_shards());
}

void Encode(const FileMeta& file, pb::File& out) {
  out.set_path(file.path);
  out.set_size_bytes(file.size_bytes);
  out.set_header_bytes(file.header_bytes);
  out.set_header_crc32c(file.header_crc32c);
}

void EncodeRun(const ManifestData& data, pb::CheckpointManifest& out) {
  out.set_writer(data.writer);
  out.set_layout(static_cast<uint32_t>(data.layout));
  pb::TrainingProgress& progress = *out.mutable_progress();
  progress.set_step(data.progress.step);
  progress.set_epoch(data.progress.epoch);
  progress.set_samples_seen(data.progress.samples_seen);
  pb::Topology& topology = *out.mutable_topology();
  topology.set_world_size(data.topology.world_size);
  topology.set_ranks_per_node(data.topology.ranks_per_node);
  topology.set_strategy(data.topology.strategy);
  topology.set_threads_per_rank(data.topology.threads_per_rank);
  pb::LoadOrder& order = *out.mutable_load_order();
  order.set_mode(static_cast<uint32_t>(data.load_order.mode));
  order.set_max_concurrent_per_node(data.load_order.max_concurrent_per_node);
  order.set_window_bytes(data.load_order.window_bytes);
}

void Encode(const ManifestData& data, pb::CheckpointManifest& out) {
  EncodeRun(data, out);
  out.mutable_files()->Reserve(static_cast<int>(data.files.size()));
  for (const FileMeta& file : data.files) Encode(file, *out.add_files());
  out.mutable_tensors()->Reserve(static_cast<int>(data.tensors.size()));
  for (const TensorEntry& tensor : data.tensors) Encode(tensor, *out.add_tensors());
  Encode(data.extras, *out.mutable_extras());
  for (const Value::Map& extras : data.rank_extras) Encode(extras, *out.add_rank_extras());
}

// --- Messages -> values ---

absl::Status Decode(const pb::Value& in, int depth, Value& out);

absl::Status Decode(const pb::ValueMap& in, int depth, Value::Map& out) {
  for (const pb::ValueEntry& entry : in.entries()) {
    const auto [position, is_new] = out.try_emplace(entry.key());
    if (!is_new)
      return absl::DataLossError(absl::StrCat("extra \"", absl::CHexEscape(entry.key()), "\" is there twice"));
    SW_RETURN_IF_ERROR(Decode(entry.value(), depth, position->second))
        << "extra \"" << absl::CHexEscape(entry.key()) << "\"";
  }
  return absl::OkStatus();
}

absl::Status DecodeList(const pb::ValueList& in, int depth, Value& out) {
  out = Value::List(in.values_size());
  Value::List& list = *out.get_if<Value::List>();
  for (int i = 0; i < in.values_size(); ++i) SW_RETURN_IF_ERROR(Decode(in.values(i), depth, list[i]));
  return absl::OkStatus();
}

absl::Status DecodeMap(const pb::ValueMap& in, int depth, Value& out) {
  out = Value::Map();
  return Decode(in, depth, *out.get_if<Value::Map>());
}

absl::Status Decode(const pb::Value& in, int depth, Value& out) {
  if (depth > kMaxValueDepth) return absl::DataLossError(absl::StrCat("nested deeper than ", kMaxValueDepth));
  switch (in.kind_case()) {
    case pb::Value::kNullValue:
      out = Value();
      return absl::OkStatus();
    case pb::Value::kBoolValue:
      out = in.bool_value();
      return absl::OkStatus();
    case pb::Value::kIntValue:
      out = int64_t{in.int_value()};
      return absl::OkStatus();
    case pb::Value::kDoubleValue:
      out = in.double_value();
      return absl::OkStatus();
    case pb::Value::kTextValue:
      out = in.text_value();
      return absl::OkStatus();
    case pb::Value::kBytesValue:
      out = Bytes{in.bytes_value()};
      return absl::OkStatus();
    case pb::Value::kTensorValue:
      out = TensorReference{in.tensor_value()};
      return absl::OkStatus();
    case pb::Value::kOpaqueValue:
      out = OpaqueObject{in.opaque_value()};
      return absl::OkStatus();
    case pb::Value::kListValue:
      return DecodeList(in.list_value(), depth + 1, out);
    case pb::Value::kMapValue:
      return DecodeMap(in.map_value(), depth + 1, out);
    case pb::Value::KIND_NOT_SET:
      break;
  }
  return absl::DataLossError("a value of no known kind");
}

// Enumerations are bytes in memory: a number that does not fit becomes 255, which no enumeration has, so that
// validation refuses it.
template <typename Enum>
Enum DecodeEnum(uint32_t number) {
  return static_cast<Enum>(number < 255 ? number : 255);
}

void Decode(const pb::Shard& in, ShardMeta& out) {
  out.box.offset.assign(in.box_offset().begin(), in.box_offset().end());
  out.box.size.assign(in.box_size().begin(), in.box_size().end());
  out.file = in.file();
  out.offset_bytes = in.offset_bytes();
  out.length_bytes = in.length_bytes();
  out.chunk_crc32c.assign(in.chunk_crc32c().begin(), in.chunk_crc32c().end());
  out.hash = {in.hash_high(), in.hash_low()};
}

void Decode(const pb::Tensor& in, TensorEntry& out) {
  out.meta.name = in.name();
  out.meta.dtype = DecodeEnum<DType>(in.dtype());
  out.meta.shape.assign(in.shape().begin(), in.shape().end());
  out.meta.role = DecodeEnum<Role>(in.role());
  out.meta.optimizer = {in.optimizer().index(), in.optimizer().parameter(), in.optimizer().slot()};
  out.meta.trainable = !in.frozen();
  out.alias_of = in.alias_of();
  out.shards.resize(in.shards_size());
  for (int i = 0; i < in.shards_size(); ++i) Decode(in.shards(i), out.shards[i]);
}

void DecodeRun(const pb::CheckpointManifest& in, ManifestData& out) {
  out.writer = in.writer();
  out.layout = DecodeEnum<SaveLayout>(in.layout());
  out.progress = {in.progress().step(), in.progress().epoch(), in.progress().samples_seen()};
  out.topology = {in.topology().world_size(), in.topology().ranks_per_node(), in.topology().strategy(),
                  in.topology().threads_per_rank()};
  out.load_order = {DecodeEnum<LoadMode>(in.load_order().mode()), in.load_order().max_concurrent_per_node(),
                    in.load_order().window_bytes()};
}

absl::Status DecodeHead(const std::string& head, ManifestData& out) {
  Arena arena;
  auto* message = Arena::CreateMessage<pb::CheckpointManifest>(&arena);
  CodedInputStream input(reinterpret_cast<const uint8_t*>(head.data()), static_cast<int>(head.size()));
  input.SetRecursionLimit(kMaxMessageDepth);
  if (!message->ParseFromCodedStream(&input) || !input.ConsumedEntireMessage()) {
    return absl::DataLossError("the message does not parse");
  }
  DecodeRun(*message, out);
  for (const pb::File& file : message->files()) {
    out.files.push_back({file.path(), file.size_bytes(), file.header_bytes(), file.header_crc32c()});
  }
  SW_RETURN_IF_ERROR(Decode(message->extras(), 1, out.extras));
  out.rank_extras.resize(message->rank_extras_size());
  for (int rank = 0; rank < message->rank_extras_size(); ++rank) {
    SW_RETURN_IF_ERROR(Decode(message->rank_extras(rank), 1, out.rank_extras[rank])) << "rank " << rank;
  }
  return absl::OkStatus();
}

// Parses and converts tensors one by one, so that a million of them never stand in memory twice; what is not a tensor
// is gathered in `head`.
absl::Status DecodeTensors(absl::Span<const char> message, std::string& head, std::vector<TensorEntry>& tensors) {
  constexpr uint32_t kTensorTag =
      pb::CheckpointManifest::kTensorsFieldNumber << 3 | WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  Arena arena;
  auto* tensor = Arena::CreateMessage<pb::Tensor>(&arena);
  CodedInputStream input(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size()));
  const absl::Status damaged = absl::DataLossError("the message does not parse");
  for (int begin = 0; begin < static_cast<int>(message.size()); begin = input.CurrentPosition()) {
    const uint32_t tag = input.ReadTag();
    if (tag == kTensorTag) {
      uint32_t length = 0;
      if (!input.ReadVarint32(&length) || length > message.size() - input.CurrentPosition()) return damaged;
      const char* bytes = message.data() + input.CurrentPosition();
      if (!tensor->ParseFromArray(bytes, static_cast<int>(length)) || !input.Skip(static_cast<int>(length)))
        return damaged;
      // Validation says so too, but later: a sea of empty tensors would take many times the memory of the message by
      // then.
      if (tensor->name().empty()) return absl::DataLossError("a tensor without a name");
      Decode(*tensor, tensors.emplace_back());
    } else {
      if (tag == 0 || !WireFormatLite::SkipField(&input, tag)) return damaged;
      head.append(message.data() + begin, input.CurrentPosition() - begin);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest) {
  const ManifestData& data = manifest.data();
  if (data.format_version != kFormatVersion) {
    return absl::InvalidArgumentError(absl::StrCat("encoding a manifest of format version ", data.format_version,
                                                   ": this writer knows version ", kFormatVersion));
  }
  if (manifest.kind() != ManifestKind::kNative) {
    return absl::InvalidArgumentError("encoding the manifest of a foreign checkpoint: only native ones are persisted");
  }
  Arena arena;
  auto* message = Arena::CreateMessage<pb::CheckpointManifest>(&arena);
  Encode(data, *message);
  const size_t length = message->ByteSizeLong();
  if (length > kMaxMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("encoding a manifest of ", length, " bytes: at most ", kMaxMessageBytes, " are possible"));
  }
  std::string bytes(kFrameHeadBytes + length, '\0');
  message->SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(&bytes[kFrameHeadBytes]));
  FillFrameHead({data.format_version, data.min_reader_version}, absl::MakeSpan(bytes));
  return bytes;
}

absl::StatusOr<std::shared_ptr<const Manifest>> DecodeManifest(absl::Span<const char> bytes) {
  SW_ASSIGN_OR_RETURN(const FrameVersions versions, CheckFrame(bytes));
  ManifestData data;
  data.format_version = versions.format;
  data.min_reader_version = versions.min_reader;
  std::string head;
  SW_RETURN_IF_ERROR(DecodeTensors(bytes.subspan(kFrameHeadBytes), head, data.tensors));
  SW_RETURN_IF_ERROR(DecodeHead(head, data));
  return Manifest::Create(std::move(data));
}

}  // namespace shardwright
