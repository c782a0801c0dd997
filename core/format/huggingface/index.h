// The index of a model that is split over files: model.safetensors.index.json, pytorch_model.bin.index.json.
#ifndef SHARDWRIGHT_CORE_FORMAT_HUGGINGFACE_INDEX_H_
#define SHARDWRIGHT_CORE_FORMAT_HUGGINGFACE_INDEX_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shardwright::huggingface {

struct Index {
  std::map<std::string, std::string> weight_map;  // tensor -> file beside the index
  std::map<std::string, std::string> metadata;    // plain values as text
  std::optional<uint64_t> total_size;             // advisory: ties make it differ
};

// kDataLoss unless the JSON has a weight_map of names to names of files that are siblings of the index, no key twice.
absl::StatusOr<Index> ParseIndex(absl::string_view json);

}  // namespace shardwright::huggingface

#endif  // SHARDWRIGHT_CORE_FORMAT_HUGGINGFACE_INDEX_H_
