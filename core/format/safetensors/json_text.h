// Strings as JSON text.
#ifndef SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_JSON_TEXT_H_
#define SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_JSON_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace shardwright::safetensors {

// True for well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsValidUtf8(absl::string_view text);

// Appends `text`, quoted and escaped. `text` must be valid UTF-8, else the result is no JSON.
void AppendJsonString(absl::string_view text, std::string& out);

}  // namespace shardwright::safetensors

#endif  // SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_JSON_TEXT_H_
