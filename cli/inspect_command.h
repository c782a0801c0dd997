// `shardwright inspect`: what is in a checkpoint.
#ifndef SHARDWRIGHT_CLI_INSPECT_COMMAND_H_
#define SHARDWRIGHT_CLI_INSPECT_COMMAND_H_

#include "shardwright/cli/command.h"

namespace shardwright::cli {

Command InspectCommand();

}  // namespace shardwright::cli

#endif  // SHARDWRIGHT_CLI_INSPECT_COMMAND_H_
