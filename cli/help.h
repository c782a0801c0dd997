// Help texts, made from the commands and gflags' own descriptions.
#ifndef SHARDWRIGHT_CLI_HELP_H_
#define SHARDWRIGHT_CLI_HELP_H_

#include <string>
#include <vector>

#include "shardwright/cli/command.h"

namespace shardwright::cli {

// The list of verbs.
std::string OverviewHelp(const std::vector<Command>& commands);
// One verb: usage, details, its flags with defaults.
std::string CommandHelp(const Command& command);

}  // namespace shardwright::cli

#endif  // SHARDWRIGHT_CLI_HELP_H_
