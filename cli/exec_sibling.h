// Starting the program beside this one.
#ifndef SHARDWRIGHT_CLI_EXEC_SIBLING_H_
#define SHARDWRIGHT_CLI_EXEC_SIBLING_H_

#include <string>
#include <vector>

namespace shardwright::cli {

// One line of each verb that lives in the sibling: the overview shows them without starting it.
inline constexpr char kTrainSummary[] = "Train a model, or go on with a run.";
inline constexpr char kSampleSummary[] = "Let a trained model continue a text.";

// Replaces this process by `program` of its own folder, called "program verb words...". Returns an exit status only if
// that fails, after saying why.
int ExecSibling(const std::string& program, const std::string& verb, const std::vector<std::string>& words);

// The path of the running program.
std::string SelfPath();

}  // namespace shardwright::cli

#endif  // SHARDWRIGHT_CLI_EXEC_SIBLING_H_
