#include "shardwright/train_main.h"

#include "shardwright/callbacks/callbacks.h"
#include "shardwright/cli/inspect_command.h"
#include "shardwright/cli/sample_command.h"
#include "shardwright/cli/train_command.h"
#include "shardwright/cli/verify_command.h"
#include "shardwright/core/models/models.h"
#include "shardwright/strategies/strategies.h"

namespace shardwright {
namespace {

TrainTables WithBuiltins(const Tables& own) {
  TrainTables tables{BuiltinModels(), BuiltinStrategies(), BuiltinCallbacks()};
  for (const auto& [name, row] : own.models) tables.models.Add(name, row);
  for (const auto& [name, row] : own.strategies) tables.strategies.Add(name, row);
  for (const auto& [name, row] : own.callbacks) tables.callbacks.Add(name, row);
  return tables;
}

}  // namespace

int TrainMain(int argc, char** argv, const Tables& own) {
  const TrainTables tables = WithBuiltins(own);
  return cli::RunCommandLine(
      argc, argv, {cli::TrainCommand(tables), cli::SampleCommand(tables), cli::InspectCommand(), cli::VerifyCommand()});
}

}  // namespace shardwright
