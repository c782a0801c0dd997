#include "shardwright/cli/flag_parser.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "shardwright/core/base/nearest.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright::cli {
namespace {

// Short and familiar names.
const std::pair<const char*, const char*> kAliases[] = {{"nproc", "nproc_per_node"}};
constexpr int kMaxFlagFileDepth = 8;

bool Has(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Canonical(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  for (const auto& [alias, target] : kAliases) {
    if (name == alias) return target;
  }
  return name;
}

bool IsBool(const std::string& name) {
  return gflags::GetCommandLineFlagInfoOrDie(name.c_str()).type == "bool";
}

absl::string_view Wanted(const std::string& type) {
  if (type == "bool") return "true or false";
  if (type == "double") return "a number";
  if (type == "string") return "a text";
  return type[0] == 'u' ? "a whole number from 0 on" : "a whole number";
}

// The bool that "--nofoo" and "--no_foo" switch off.
std::optional<std::string> NegatedBool(const std::vector<std::string>& allowed, absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "no")) return std::nullopt;
  for (absl::string_view positive : {name, absl::StripPrefix(name, "_")}) {
    if (Has(allowed, positive) && IsBool(std::string(positive))) return std::string(positive);
  }
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(const std::vector<std::string>& allowed) : allowed_(allowed) {}

  absl::Status Parse(const std::vector<std::string>& words, int depth) {
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word == "--") {
        parsed_.arguments.insert(parsed_.arguments.end(), words.begin() + i + 1, words.end());
        return absl::OkStatus();
      }
      if (word.size() < 2 || word[0] != '-') {
        parsed_.arguments.push_back(word);
        continue;
      }
      SW_RETURN_IF_ERROR(ParseFlag(words, i, depth));
    }
    return absl::OkStatus();
  }

  ParsedFlags Take() && { return std::move(parsed_); }

 private:
  absl::Status ParseFlag(const std::vector<std::string>& words, size_t& i, int depth) {
    const std::string body = words[i].substr(words[i][1] == '-' ? 2 : 1);
    const size_t equals = body.find('=');
    const std::string name = Canonical(body.substr(0, equals));
    std::optional<std::string> value;
    if (equals != std::string::npos) value = body.substr(equals + 1);
    if (name == "help" || name == "h") {
      parsed_.help = true;
      return absl::OkStatus();
    }
    const bool is_flag_file = name == "flagfile";
    if (!is_flag_file && !Has(allowed_, name)) {
      const std::optional<std::string> negated = value ? std::nullopt : NegatedBool(allowed_, name);
      return negated ? Set(*negated, "false") : Unknown(words[i].substr(0, words[i].find('=')), name);
    }
    if (!value && !is_flag_file && IsBool(name)) return Set(name, "true");
    if (!value) {
      if (i + 1 == words.size()) return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
      value = words[++i];
    }
    return is_flag_file ? ParseFlagFile(*value, depth) : Set(name, *value);
  }

  absl::Status Set(const std::string& name, const std::string& value) {
    if (!gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty()) return absl::OkStatus();
    const std::string type = gflags::GetCommandLineFlagInfoOrDie(name.c_str()).type;
    return absl::InvalidArgumentError(absl::StrCat("--", name, " wants ", Wanted(type), ", got \"", value, "\""));
  }

  absl::Status Unknown(const std::string& word, const std::string& name) const {
    std::vector<std::string> names = allowed_;
    for (const auto& [alias, target] : kAliases) {
      if (Has(allowed_, target)) names.push_back(alias);
    }
    const std::string nearest = NearestName(name, names);
    return absl::InvalidArgumentError(
        absl::StrCat("unknown flag ", word, nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?")));
  }

  absl::Status ParseFlagFile(const std::string& path, int depth) {
    if (depth == kMaxFlagFileDepth)
      return absl::InvalidArgumentError("--flagfile: files include each other too deeply");
    std::ifstream file(path);
    if (!file) return absl::InvalidArgumentError(absl::StrCat("--flagfile: cannot read \"", path, "\""));
    std::vector<std::string> words;
    for (std::string line; std::getline(file, line);) {
      line = std::string(absl::StripAsciiWhitespace(line));
      if (!line.empty() && line[0] != '#') words.push_back(line);
    }
    SW_RETURN_IF_ERROR(Parse(words, depth + 1)) << "in " << path;
    return absl::OkStatus();
  }

  const std::vector<std::string>& allowed_;
  ParsedFlags parsed_;
};

}  // namespace

absl::StatusOr<ParsedFlags> ParseFlags(const std::vector<std::string>& allowed, const std::vector<std::string>& words) {
  Parser parser(allowed);
  SW_RETURN_IF_ERROR(parser.Parse(words, 0));
  return std::move(parser).Take();
}

std::string FlagFileOf(const std::vector<std::string>& flags) {
  std::string lines;
  for (const std::string& name : flags) {
    const gflags::CommandLineFlagInfo info = gflags::GetCommandLineFlagInfoOrDie(name.c_str());
    if (info.current_value != info.default_value) absl::StrAppend(&lines, "--", name, "=", info.current_value, "\n");
  }
  return lines;
}

}  // namespace shardwright::cli
