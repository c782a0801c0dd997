// An inspection as JSON, schema "shardwright.inspect.v1".
#ifndef SHARDWRIGHT_CLI_INSPECT_JSON_H_
#define SHARDWRIGHT_CLI_INSPECT_JSON_H_

#include <string>

#include "shardwright/cli/app/inspect.h"

namespace shardwright::cli {

// One document, ended by a newline. Bytes of names that are not UTF-8 are replaced.
std::string InspectionToJson(const app::Inspection& seen);

}  // namespace shardwright::cli

#endif  // SHARDWRIGHT_CLI_INSPECT_JSON_H_
