#include "shardwright/cli/command.h"

#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "shardwright/cli/flag_parser.h"
#include "shardwright/cli/help.h"
#include "shardwright/core/base/nearest.h"
#include "shardwright/core/base/version.h"

namespace shardwright::cli {
namespace {

const Command* FindCommand(const std::vector<Command>& commands, absl::string_view name) {
  for (const Command& command : commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int UsageError(absl::string_view message, absl::string_view help) {
  std::fprintf(stderr, "shardwright: %s\n%s\n", std::string(message).c_str(), std::string(help).c_str());
  return kExitUsage;
}

int UnknownVerb(const std::vector<Command>& commands, absl::string_view name) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const Command& command : commands) names.push_back(command.name);
  const std::string nearest = NearestName(name, names);
  return UsageError(absl::StrCat("there is no verb \"", name, "\"",
                                 nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?")),
                    "try: shardwright --help");
}

absl::Status CheckArgumentCount(const Command& command, size_t count) {
  if (count < static_cast<size_t>(command.min_arguments)) {
    return absl::InvalidArgumentError(absl::StrCat("needs ", command.arguments));
  }
  if (command.max_arguments >= 0 && count > static_cast<size_t>(command.max_arguments)) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes ", command.max_arguments == 0 ? "no arguments" : command.arguments, ", got ", count));
  }
  return absl::OkStatus();
}

int RunCommand(const Command& command, const std::vector<std::string>& words) {
  if (command.passes_flags_on) return command.run(words);
  absl::StatusOr<ParsedFlags> parsed = ParseFlags(command.flags, words);
  absl::Status status = parsed.status();
  if (status.ok() && parsed->help) {
    std::fputs(CommandHelp(command).c_str(), stdout);
    return kExitGood;
  }
  if (status.ok()) status = CheckArgumentCount(command, parsed->arguments.size());
  if (!status.ok()) {
    return UsageError(absl::StrCat(command.name, ": ", status.message()),
                      absl::StrCat("try: shardwright ", command.name, " --help"));
  }
  return command.run(parsed->arguments);
}

// A freed block goes back to the system from 1 MiB on: with glibc's growing default, freed staging stays resident.
void SetUpProcess() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit becomes an error of the write
}

}  // namespace

int RunCommandLine(int argc, char** argv, const std::vector<Command>& commands) {
  SetUpProcess();
  const std::string verb = argc > 1 ? argv[1] : "--help";
  if (verb == "--help" || verb == "-h" || verb == "-help" || (verb == "help" && argc == 2)) {
    std::fputs(OverviewHelp(commands).c_str(), argc > 1 ? stdout : stderr);
    return argc > 1 ? kExitGood : kExitUsage;
  }
  if (verb == "--version") {
    std::printf("shardwright %s\n", kVersion);
    return kExitGood;
  }
  const bool help_of = verb == "help";
  const std::string name = help_of ? argv[2] : verb;
  const Command* command = FindCommand(commands, name);
  if (command == nullptr) {
    if (name[0] == '-') return UsageError(absl::StrCat("the verb comes first, got ", name), "try: shardwright --help");
    return UnknownVerb(commands, name);
  }
  return RunCommand(*command,
                    help_of ? std::vector<std::string>{"--help"} : std::vector<std::string>(argv + 2, argv + argc));
}

int ExitStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
      return kExitUnreadable;
    default:
      return kExitFailed;
  }
}

int ReportError(absl::string_view verb, const absl::Status& status) {
  std::fflush(stdout);
  std::fprintf(stderr, "shardwright %s: %s\n", std::string(verb).c_str(), std::string(status.message()).c_str());
  return ExitStatusOf(status);
}

}  // namespace shardwright::cli
