// The rows that a program trains with: the built-in ones plus its own.
#ifndef SHARDWRIGHT_CLI_APP_TABLES_H_
#define SHARDWRIGHT_CLI_APP_TABLES_H_

#include <string>
#include <utility>
#include <vector>

#include "shardwright/core/callback/callback.h"
#include "shardwright/core/module/module.h"
#include "shardwright/core/strategy/strategy.h"

namespace shardwright {

// Rows to add; one of a built-in name replaces it.
struct Tables {
  std::vector<std::pair<std::string, ModelFactory>> models;
  std::vector<std::pair<std::string, StrategyFactory>> strategies;
  std::vector<std::pair<std::string, CallbackFactory>> callbacks;
};

// What a run looks names up in.
struct TrainTables {
  ModelTable models;
  StrategyTable strategies;
  CallbackTable callbacks;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CLI_APP_TABLES_H_
