// `shardwright train`: starts a run or goes on with one.
#ifndef SHARDWRIGHT_CLI_TRAIN_COMMAND_H_
#define SHARDWRIGHT_CLI_TRAIN_COMMAND_H_

#include "shardwright/cli/app/tables.h"
#include "shardwright/cli/command.h"

namespace shardwright::cli {

Command TrainCommand(const TrainTables& tables);

}  // namespace shardwright::cli

#endif  // SHARDWRIGHT_CLI_TRAIN_COMMAND_H_
