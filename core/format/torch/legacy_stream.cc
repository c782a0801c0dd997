// The stream that torch wrote before 1.6: five pickles (magic, version, system, object, keys), then for each key, in
// the order of the last one, a count of elements and their bytes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/pickle/globals.h"
#include "shardwright/core/format/pickle/machine.h"
#include "shardwright/core/format/torch/storage_reference.h"
#include "shardwright/core/format/torch/torch_file.h"
#include "shardwright/core/manifest/little_endian.h"

namespace shardwright::torch_format {
namespace {

using pickle::Graph;
using pickle::Kind;
using pickle::NodeId;

constexpr int64_t kProtocolVersion = 1001;
constexpr uint64_t kFirstRead = 64 * 1024;

struct Pickles {
  Graph system;
  Graph object;
  Graph keys;
  uint64_t end = 0;  // where the storages begin
};

absl::StatusOr<Graph> ParseNext(const std::shared_ptr<const std::string>& bytes, uint64_t& at) {
  SW_ASSIGN_OR_RETURN(pickle::Parsed parsed, pickle::Parse(bytes, at));
  SW_RETURN_IF_ERROR(pickle::CheckHarmless(parsed.graph));
  at = parsed.end;
  return std::move(parsed.graph);
}

// kOutOfRange if the bytes do not hold all of them.
absl::StatusOr<Pickles> ParsePickles(const std::shared_ptr<const std::string>& bytes) {
  Pickles pickles;
  uint64_t at = kLegacyMagic.size();
  SW_ASSIGN_OR_RETURN(const Graph version, ParseNext(bytes, at));
  if (version.Int(version.root()) != kProtocolVersion) return absl::DataLossError("version of the stream, want 1001");
  SW_ASSIGN_OR_RETURN(pickles.system, ParseNext(bytes, at));
  SW_ASSIGN_OR_RETURN(pickles.object, ParseNext(bytes, at));
  SW_ASSIGN_OR_RETURN(pickles.keys, ParseNext(bytes, at));
  pickles.end = at;
  return pickles;
}

// How long they are is known at their end only: more and more of the file is read.
absl::StatusOr<Pickles> ReadPickles(const ReadFile& file) {
  for (uint64_t length = kFirstRead;; length *= 4) {
    length = std::min({length, file.size_bytes(), pickle::kMaxPickleBytes});
    std::string bytes(length, '\0');
    SW_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(bytes)));
    absl::StatusOr<Pickles> pickles = ParsePickles(std::make_shared<const std::string>(std::move(bytes)));
    if (!absl::IsOutOfRange(pickles.status())) return pickles;
    if (length == file.size_bytes()) return absl::DataLossError(pickles.status().message());
    if (length == pickle::kMaxPickleBytes)
      return absl::ResourceExhaustedError("a pickle of more than 1 GiB is not read");
  }
}

// Bytes of an element of each storage, by key: the stream itself counts elements.
absl::StatusOr<absl::flat_hash_map<absl::string_view, StorageReference>> References(const Graph& graph) {
  absl::flat_hash_map<absl::string_view, StorageReference> references;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.kind(id) != Kind::kPersistent || IsModuleReference(graph, id)) continue;
    SW_ASSIGN_OR_RETURN(const StorageReference reference, ParseStorageReference(graph, id));
    references.emplace(reference.key, reference);
  }
  return references;
}

absl::StatusOr<uint64_t> ReadCount(const ReadFile& file, uint64_t at) {
  char bytes[8];
  SW_RETURN_IF_ERROR(file.ReadAt(at, absl::MakeSpan(bytes)));
  return LoadLittleEndian<uint64_t>(bytes);
}

}  // namespace

absl::StatusOr<TorchFile> ReadTorchLegacy(const std::shared_ptr<const ReadFile>& file) {
  SW_ASSIGN_OR_RETURN(Pickles pickles, ReadPickles(*file));
  TorchFile torch_file;
  torch_file.graph = std::move(pickles.object);
  const Graph& keys = pickles.keys;
  torch_file.big_endian = pickles.system.Bool(pickles.system.Get(pickles.system.root(), "little_endian")) == false;
  SW_ASSIGN_OR_RETURN(const auto references, References(torch_file.graph));
  if (keys.kind(keys.root()) != Kind::kList) return absl::DataLossError("the keys of the storages are no list");
  uint64_t at = pickles.end;
  for (const NodeId node : keys.items(keys.root())) {
    const auto reference = references.find(keys.String(node).value_or(""));
    if (reference == references.end()) return absl::DataLossError("a storage that nothing refers to");
    SW_ASSIGN_OR_RETURN(const uint64_t count, ReadCount(*file, at));
    const StorageReference& storage = reference->second;
    if (count != static_cast<uint64_t>(storage.elements)) {
      return absl::DataLossError(
          absl::StrCat("storage ", storage.key, " of ", count, " elements, want ", storage.elements));
    }
    at += 8;
    if (*storage.bytes() > file->size_bytes() - at) {
      return absl::DataLossError(absl::StrCat("storage ", storage.key, " of ", *storage.bytes(), " bytes is cut after ",
                                              file->size_bytes() - at));
    }
    torch_file.storages[storage.key] = StorageBytes{at, *storage.bytes(), *storage.bytes()};
    at += *storage.bytes();
  }
  return torch_file;
}

}  // namespace shardwright::torch_format
