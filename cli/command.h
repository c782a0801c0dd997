// A verb of the command line, and the loop that picks one.
//
//   shardwright VERB [FLAGS] [ARGUMENTS]
//
// Exit status: 0 good; 1 failed, or found something; 2 bad usage; 3 could not read (absence, permission); 128 + signal.
#ifndef SHARDWRIGHT_CLI_COMMAND_H_
#define SHARDWRIGHT_CLI_COMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shardwright::cli {

inline constexpr int kExitGood = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreadable = 3;

struct Command {
  std::string name;
  std::string arguments;           // for the usage line: "CHECKPOINT..."
  std::string summary;             // one line, for the list of verbs
  std::string details;             // paragraphs of `shardwright VERB --help`
  std::vector<std::string> flags;  // the gflags that it takes, in the order of its help
  int min_arguments = 0;
  int max_arguments = 0;  // -1: any number
  // Takes flags and arguments as they are (it hands them to another program).
  bool passes_flags_on = false;
  std::function<int(const std::vector<std::string>& arguments)> run;  // returns the exit status
};

// Parses argv and runs its verb. Bad usage names the mistake, the nearest right word, and how to get help.
int RunCommandLine(int argc, char** argv, const std::vector<Command>& commands);

// The exit status for an error: kNotFound and kPermissionDenied 3, kInvalidArgument 2, anything else 1.
int ExitStatusOf(const absl::Status& status);
// Prints "shardwright VERB: message" on stderr; returns the exit status.
int ReportError(absl::string_view verb, const absl::Status& status);

}  // namespace shardwright::cli

#endif  // SHARDWRIGHT_CLI_COMMAND_H_
