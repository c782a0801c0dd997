#include "shardwright/core/format/safetensors/json_text.h"

#include <cstdint>

#include "absl/strings/str_format.h"

namespace shardwright::safetensors {
namespace {

// Bytes of the sequence that `lead` begins, 0 if none does; `low` and `high` bound its second byte.
int SequenceLength(uint8_t lead, uint8_t& low, uint8_t& high) {
  low = 0x80;
  high = 0xBF;
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation, or an overlong form of two bytes
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) {
    if (lead == 0xE0) low = 0xA0;   // overlong below
    if (lead == 0xED) high = 0x9F;  // surrogates above
    return 3;
  }
  if (lead > 0xF4) return 0;
  if (lead == 0xF0) low = 0x90;   // overlong below
  if (lead == 0xF4) high = 0x8F;  // above U+10FFFF
  return 4;
}

}  // namespace

bool IsValidUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    uint8_t low, high;
    const size_t length = SequenceLength(static_cast<uint8_t>(text[at]), low, high);
    if (length == 0 || length > text.size() - at) return false;
    for (size_t i = 1; i < length; ++i) {
      const uint8_t byte = static_cast<uint8_t>(text[at + i]);
      if (byte < low || byte > high) return false;
      low = 0x80;
      high = 0xBF;
    }
    at += length;
  }
  return true;
}

void AppendJsonString(absl::string_view text, std::string& out) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

}  // namespace shardwright::safetensors
