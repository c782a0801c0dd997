#include "shardwright/core/format/huggingface/index.h"

#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "shardwright/core/base/status_macros.h"

namespace shardwright::huggingface {
namespace {

constexpr int kMaxDepth = 64;
constexpr absl::string_view kWeightMapKey = "weight_map";
constexpr absl::string_view kMetadataKey = "metadata";
constexpr absl::string_view kTotalSizeKey = "total_size";

// A plain name: nothing that leads out of the folder or into another one.
bool IsSibling(absl::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == absl::string_view::npos &&
         name.find('\\') == absl::string_view::npos && name.find('\0') == absl::string_view::npos;
}

// nlohmann's SAX interface; an answer of false ends the parse.
class IndexHandler {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return Plain("null", std::nullopt); }
  bool boolean(bool value) { return Plain(value ? "true" : "false", std::nullopt); }
  bool number_integer(number_integer_t value) { return Plain(absl::StrCat(value), std::nullopt); }
  bool number_unsigned(number_unsigned_t value) { return Plain(absl::StrCat(value), value); }
  bool number_float(number_float_t, const string_t& text) { return Plain(text, std::nullopt); }
  bool binary(binary_t&) { return Refuse("binary data"); }

  bool string(string_t& value) {
    if (depth_ == 2 && section_ == kWeightMapKey) {
      if (!IsSibling(value)) {
        return Refuse(
            absl::StrCat("is mapped to \"", absl::CHexEscape(value.substr(0, 200)), "\", no file beside the index"));
      }
      index_.weight_map[key_] = std::move(value);
      return true;
    }
    return Plain(value, std::nullopt);
  }

  bool key(string_t& value) {
    key_ = value;
    if (depth_ == 1) section_ = value;
    if (depth_ > 2 || keys_[depth_ - 1].insert(value).second) return true;
    return Refuse("is there twice");
  }

  bool start_object(size_t) {
    if (depth_ == 2 && section_ == kWeightMapKey) return Refuse("is mapped to an object");
    if (++depth_ > kMaxDepth) return Refuse("is nested too deep");
    if (depth_ == 2) {
      keys_[1].clear();
      has_weight_map_ |= section_ == kWeightMapKey;
    }
    return true;
  }
  bool end_object() {
    --depth_;
    return true;
  }
  bool start_array(size_t) {
    if (depth_ <= 2 && section_ == kWeightMapKey) return Refuse("is mapped to a list");
    return ++depth_ <= kMaxDepth || Refuse("is nested too deep");
  }
  bool end_array() {
    --depth_;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    if (error_.empty()) error_ = absl::StrCat("not valid JSON at byte ", position);
    return false;
  }

  Index Take() { return std::move(index_); }
  bool has_weight_map() const { return has_weight_map_; }
  const std::string& error() const { return error_; }

 private:
  bool Plain(absl::string_view text, std::optional<uint64_t> number) {
    if (depth_ <= 2 && section_ == kWeightMapKey)
      return Refuse(absl::StrCat("is mapped to ", text, ", no name of a file"));
    if (depth_ != 2 || section_ != kMetadataKey) return true;
    if (key_ == kTotalSizeKey) {
      index_.total_size = number;
    } else {
      index_.metadata[key_] = std::string(text);
    }
    return true;
  }

  bool Refuse(absl::string_view what) {
    error_ = absl::StrCat("\"", absl::CHexEscape(key_.substr(0, 200)), "\" ", what);
    return false;
  }

  Index index_;
  std::set<std::string> keys_[2];  // of the outermost object, and of the section in it
  std::string section_;
  std::string key_;
  std::string error_;
  int depth_ = 0;
  bool has_weight_map_ = false;
};

}  // namespace

absl::StatusOr<Index> ParseIndex(absl::string_view json) {
  if (json.find('\0') != absl::string_view::npos) return absl::DataLossError("NUL in the JSON");
  IndexHandler handler;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler)) return absl::DataLossError(handler.error());
  if (!handler.has_weight_map()) return absl::DataLossError("no \"weight_map\"");
  return handler.Take();
}

}  // namespace shardwright::huggingface
