// `shardwright`: torch-free, so that looking at checkpoints starts in milliseconds and runs where no torch is
// installed. Verbs that train are handed to the program beside it that links LibTorch.
#include "shardwright/cli/command.h"
#include "shardwright/cli/exec_sibling.h"
#include "shardwright/cli/inspect_command.h"
#include "shardwright/cli/verify_command.h"

namespace {

shardwright::cli::Command Sibling(const char* verb, const char* summary) {
  return {
      .name = verb, .summary = summary, .passes_flags_on = true, .run = [verb](const std::vector<std::string>& words) {
        return shardwright::cli::ExecSibling("shardwright_train", verb, words);
      }};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace shardwright::cli;  // NOLINT: the program's own names
  return RunCommandLine(
      argc, argv,
      {Sibling("train", kTrainSummary), Sibling("sample", kSampleSummary), InspectCommand(), VerifyCommand()});
}
