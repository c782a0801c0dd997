// The JSON of a safetensors header, event by event: bounded in depth, strict about types and repeated names.
#ifndef SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_HEADER_PARSER_H_
#define SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_HEADER_PARSER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shardwright::safetensors {

// An entry as it stands there: all its fields are there and of the right types; nothing else is checked.
struct RawEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> data_offsets;
  bool has_dtype = false;  // while it is parsed
  bool has_shape = false;
  bool has_data_offsets = false;
};

struct RawHeader {
  std::vector<RawEntry> entries;  // in the order of the text
  std::map<std::string, std::string> metadata;
};

// kDataLoss unless `json` is one object of entries, with a "__metadata__" of strings perhaps, and nothing more but
// blanks behind it. Unknown fields of an entry are passed over.
absl::StatusOr<RawHeader> ParseHeaderJson(absl::string_view json);

}  // namespace shardwright::safetensors

#endif  // SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_HEADER_PARSER_H_
