#include "shardwright/core/format/safetensors/header_parser.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace shardwright::safetensors {
namespace {

// As the reference reader's.
constexpr int kMaxDepth = 128;
constexpr absl::string_view kMetadataKey = "__metadata__";

// Where in the header the parser stands.
enum class Place {
  kStart,
  kTop,          // in the object of all entries; a value would be an entry
  kMetadata,     // in "__metadata__"
  kEntry,        // in an entry, at no field of interest
  kDType,        // at the value of "dtype"
  kShape,        // at, or in, "shape"
  kDataOffsets,  // at, or in, "data_offsets"
  kIgnored,      // at, or in, an unknown field
  kEnd,
};

// nlohmann's SAX interface; every event answers false to end the parse.
class HeaderHandler {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() {
    // Accepted as "no metadata", as by the reference reader.
    if (place_ == Place::kTop && AtMetadata()) return true;
    return Ignorable() || Fail("null");
  }
  bool boolean(bool) { return Ignorable() || Fail("a boolean"); }
  bool number_integer(number_integer_t) { return Ignorable() || Fail("a negative number"); }
  bool number_float(number_float_t, const string_t&) {
    return Ignorable() || Fail("a number that is no 64-bit integer");
  }
  bool binary(binary_t&) { return Fail("binary data"); }

  bool number_unsigned(number_unsigned_t value) {
    if (depth_ == 3 && place_ == Place::kShape) return Push(entry().shape, value);
    if (depth_ == 3 && place_ == Place::kDataOffsets) return Push(entry().data_offsets, value);
    return Ignorable() || Fail("a number");
  }

  bool string(string_t& value) {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (place_ == Place::kDType) {
      entry().dtype = std::move(value);
      place_ = Place::kEntry;
      return true;
    }
    return Ignorable() || Fail("a string");
  }

  bool key(string_t& value) {
    key_ = std::move(value);
    switch (place_) {
      case Place::kTop:
        return names_.insert(key_).second || Refuse("is there twice");
      case Place::kMetadata:
        return header_.metadata.emplace(key_, "").second || Refuse("is there twice in the metadata");
      case Place::kEntry:
        return EnterField();
      default:
        return true;
    }
  }

  bool start_object(size_t) {
    if (++depth_ > kMaxDepth) return Fail("an object nested too deep");
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ == Place::kTop) {
      place_ = AtMetadata() ? Place::kMetadata : Place::kEntry;
      if (place_ == Place::kEntry) header_.entries.emplace_back().name = key_;
      return true;
    }
    return place_ == Place::kIgnored || Fail("an object");
  }

  bool end_object() {
    --depth_;
    if (depth_ == 0) place_ = Place::kEnd;
    if (depth_ == 1) {
      const bool is_whole = std::exchange(place_, Place::kTop) == Place::kMetadata || EntryIsWhole();
      // Seen here and not at the end, so that no sea of empty entries is kept till then.
      return is_whole || RefuseEntry();
    }
    LeaveIgnored();
    return true;
  }

  bool start_array(size_t) {
    if (++depth_ > kMaxDepth) return Fail("an array nested too deep");
    if (depth_ == 3 && (place_ == Place::kShape || place_ == Place::kDataOffsets)) return true;
    return place_ == Place::kIgnored || Fail("an array");
  }

  bool end_array() {
    --depth_;
    if (depth_ == 2) place_ = Place::kEntry;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    if (error_.empty()) error_ = absl::StrCat("not valid JSON at byte ", position);
    return false;
  }

  RawHeader TakeHeader() { return std::move(header_); }
  const std::string& error() const { return error_; }

 private:
  RawEntry& entry() { return header_.entries.back(); }
  bool EntryIsWhole() { return entry().has_dtype && entry().has_shape && entry().has_data_offsets; }
  bool AtMetadata() const { return key_ == kMetadataKey; }

  static bool Push(std::vector<uint64_t>& numbers, uint64_t value) {
    numbers.push_back(value);
    return true;
  }

  bool EnterField() {
    bool* is_there = nullptr;
    if (key_ == "dtype") {
      place_ = Place::kDType;
      is_there = &entry().has_dtype;
    } else if (key_ == "shape") {
      place_ = Place::kShape;
      is_there = &entry().has_shape;
    } else if (key_ == "data_offsets") {
      place_ = Place::kDataOffsets;
      is_there = &entry().has_data_offsets;
    } else {
      place_ = Place::kIgnored;
      return true;
    }
    return !std::exchange(*is_there, true) || Refuse(absl::StrCat("is there twice in tensor ", QuotedName()));
  }

  // True for a plain value inside an unknown field.
  bool Ignorable() {
    if (place_ != Place::kIgnored) return false;
    LeaveIgnored();
    return true;
  }

  void LeaveIgnored() {
    if (place_ == Place::kIgnored && depth_ == 2) place_ = Place::kEntry;
  }

  std::string QuotedName() { return absl::StrCat("\"", absl::CHexEscape(entry().name.substr(0, 200)), "\""); }

  bool Refuse(absl::string_view what) {
    error_ = absl::StrCat("\"", absl::CHexEscape(key_.substr(0, 200)), "\" ", what);
    return false;
  }

  bool RefuseEntry() {
    error_ = absl::StrCat("tensor ", QuotedName(), " lacks dtype, shape or data_offsets");
    return false;
  }

  bool Fail(absl::string_view got) {
    switch (place_) {
      case Place::kMetadata:
        return Refuse(absl::StrCat("in the metadata: want a string, got ", got));
      case Place::kTop:
        return Refuse(absl::StrCat("is no tensor: want an object, got ", got));
      case Place::kDType:
      case Place::kShape:
      case Place::kDataOffsets:
      case Place::kIgnored:
        return Refuse(absl::StrCat("of tensor ", QuotedName(), ": got ", got));
      default:
        error_ = absl::StrCat("want an object of tensors, got ", got);
        return false;
    }
  }

  RawHeader header_;
  absl::flat_hash_set<std::string> names_;
  std::string key_;  // the last one
  std::string error_;
  Place place_ = Place::kStart;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<RawHeader> ParseHeaderJson(absl::string_view json) {
  // The parser would take a byte order mark for nothing and a NUL for the end.
  if (json.empty() || json[0] != '{') return absl::DataLossError("the JSON does not begin with '{'");
  if (const size_t at = json.find('\0'); at != absl::string_view::npos) {
    return absl::DataLossError(absl::StrCat("NUL in the JSON at byte ", at));
  }
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler)) {
    return absl::DataLossError(handler.error());
  }
  return handler.TakeHeader();
}

}  // namespace shardwright::safetensors
