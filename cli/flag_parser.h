// A verb's flags. gflags knows every flag that is linked, whichever verb it belongs to; this parser takes only the
// verb's own, and answers a foreign, misspelt or ill-typed one with a message instead of gflags' exit.
#ifndef SHARDWRIGHT_CLI_FLAG_PARSER_H_
#define SHARDWRIGHT_CLI_FLAG_PARSER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shardwright::cli {

struct ParsedFlags {
  std::vector<std::string> arguments;  // what is not a flag, in order
  bool help = false;                   // -h or --help was among them
};

// Sets the gflags among `words`: --name=value, --name value, --bool, --nobool, --no_bool; one dash or two; "--" ends
// flags; --flagfile=PATH inserts a file's lines (its flags do not override ones given after it). A value may contain
// '='. kInvalidArgument names the flag, what it got and what it wants.
absl::StatusOr<ParsedFlags> ParseFlags(const std::vector<std::string>& allowed, const std::vector<std::string>& words);

// Those of `flags` that are not at their default, as "--name=value" lines: a flagfile that repeats this command.
std::string FlagFileOf(const std::vector<std::string>& flags);

}  // namespace shardwright::cli

#endif  // SHARDWRIGHT_CLI_FLAG_PARSER_H_
