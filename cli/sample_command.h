// `shardwright sample`: text from a trained model.
#ifndef SHARDWRIGHT_CLI_SAMPLE_COMMAND_H_
#define SHARDWRIGHT_CLI_SAMPLE_COMMAND_H_

#include "shardwright/cli/app/tables.h"
#include "shardwright/cli/command.h"

namespace shardwright::cli {

Command SampleCommand(const TrainTables& tables);

}  // namespace shardwright::cli

#endif  // SHARDWRIGHT_CLI_SAMPLE_COMMAND_H_
