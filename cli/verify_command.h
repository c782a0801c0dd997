// `shardwright verify`: are the bytes those that were written?
#ifndef SHARDWRIGHT_CLI_VERIFY_COMMAND_H_
#define SHARDWRIGHT_CLI_VERIFY_COMMAND_H_

#include "shardwright/cli/command.h"

namespace shardwright::cli {

Command VerifyCommand();

}  // namespace shardwright::cli

#endif  // SHARDWRIGHT_CLI_VERIFY_COMMAND_H_
