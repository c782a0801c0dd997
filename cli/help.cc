#include "shardwright/cli/help.h"

#include <gflags/gflags.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace shardwright::cli {
namespace {

constexpr size_t kColumns = 100;

// `text` broken at spaces, every line after `indent` spaces.
std::string Wrap(absl::string_view text, size_t indent) {
  std::string out;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) absl::StrAppend(&out, std::string(indent, ' '), line, "\n");
    line.clear();
  };
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kColumns) flush();
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  flush();
  return out;
}

std::string FlagHelp(const std::string& name) {
  const gflags::CommandLineFlagInfo info = gflags::GetCommandLineFlagInfoOrDie(name.c_str());
  const std::string value = info.type == "string" ? absl::StrCat("\"", info.default_value, "\"") : info.default_value;
  return absl::StrCat("  --", name, "=", value, "\n", Wrap(info.description, 6));
}

}  // namespace

std::string OverviewHelp(const std::vector<Command>& commands) {
  std::string out =
      "Trains large models, and looks after their checkpoints.\n\nusage: shardwright VERB [FLAGS] [ARGUMENTS]\n\n";
  for (const Command& command : commands) absl::StrAppendFormat(&out, "  %-10s %s\n", command.name, command.summary);
  absl::StrAppend(
      &out, "\nshardwright VERB --help tells a verb's flags. Results go to stdout, notes to stderr.\n",
      "Exit status: 0 good, 1 failed or found something, 2 bad usage, 3 could not read, 128+N on signal N.\n");
  return out;
}

std::string CommandHelp(const Command& command) {
  std::string out = absl::StrCat("usage: shardwright ", command.name, " [FLAGS]", command.arguments.empty() ? "" : " ",
                                 command.arguments, "\n\n", Wrap(command.summary, 0));
  if (!command.details.empty()) absl::StrAppend(&out, "\n", command.details, "\n");
  absl::StrAppend(&out, "\nflags (shown with their defaults; --flagfile=PATH reads more from a file):\n");
  for (const std::string& name : command.flags) absl::StrAppend(&out, FlagHelp(name));
  return out;
}

}  // namespace shardwright::cli
