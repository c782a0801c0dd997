// Trials of models and strategies on one device, as a table. See run.sh.
//
//   device_check --device=cuda:0 --folder=/tmp/check        exit status 1 if anything was not as it must be
#include <gflags/gflags.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/tests/gpu/device_trial.h"

DEFINE_string(device, "cuda:0", "cpu, or cuda:N");
DEFINE_string(folder, "", "where checkpoints go meanwhile");
DEFINE_bool(small, false, "tiny models, to try this program itself");

namespace shardwright::testing {
namespace {

// Some GiB of state, so that rates are those of long transfers. Dropout, so that random generators matter.
std::vector<TrialCase> MakeCases() {
  ModelOptions gpt = {{"n_layer", "12"}, {"n_head", "16"}, {"n_embd", "1024"}, {"context", "512"}, {"dropout", "0.1"}};
  ModelOptions moe_gpt = gpt;
  moe_gpt["n_layer"] = "4";
  moe_gpt["n_expert"] = "4";
  if (FLAGS_small) {
    gpt = {{"n_layer", "2"}, {"n_head", "2"}, {"n_embd", "32"}, {"context", "32"}, {"dropout", "0.1"}};
    moe_gpt = gpt;
  }
  std::vector<TrialCase> cases;
  for (const auto& [model, options] : {std::pair("gpt", gpt), std::pair("moe_gpt", moe_gpt)}) {
    for (const char* strategy : {"single_device", "zero3"}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        cases.push_back({.model = model, .options = options, .strategy = strategy, .compute_dtype = dtype});
      }
    }
  }
  return cases;
}

void PrintRow(const TrialCase& trial, const TrialResult& result) {
  std::printf("%-8s %-14s %-5s %10s %9.2f %10.2f %10.2f %11s %11s   %s\n", trial.model.c_str(), trial.strategy.c_str(),
              trial.compute_dtype == DType::kFloat32 ? "fp32" : "bf16", FormatBytes(result.state_bytes).c_str(),
              result.steps_per_second, result.save_bytes_per_second / 1e9, result.load_bytes_per_second / 1e9,
              FormatBytes(result.transient_bytes).c_str(), FormatBytes(result.grown_bytes).c_str(),
              result.problems.empty() ? "as it must be" : "WRONG");
  for (const std::string& problem : result.problems) std::printf("    %s\n", problem.c_str());
  std::fflush(stdout);
}

int Run() {
  const absl::StatusOr<Device> device = ParseDevice(FLAGS_device, {});
  if (!device.ok() || FLAGS_folder.empty()) {
    std::fprintf(stderr, "device_check: want --folder and a device: %s\n", device.status().ToString().c_str());
    return 2;
  }
  const std::unique_ptr<Storage> storage = MakePosixStorage();
  std::printf("%-8s %-14s %-5s %10s %9s %10s %10s %11s %11s   %s\n", "model", "strategy", "", "state", "steps/s",
              "save GB/s", "load GB/s", "staging", "memory rose", "resumed; to the CPU; from the CPU");
  bool good = true;
  int number = 0;
  for (const TrialCase& trial : MakeCases()) {
    const std::string folder = JoinPath(FLAGS_folder, absl::StrCat("trial-", ++number));
    const absl::StatusOr<TrialResult> result = RunTrial(trial, *device, *storage, folder);
    if (result.ok()) {
      PrintRow(trial, *result);
    } else {
      std::printf("%-8s %-14s FAILED: %s\n", trial.model.c_str(), trial.strategy.c_str(),
                  result.status().ToString().c_str());
    }
    good = good && result.ok() && result->problems.empty();
  }
  std::printf("%s\n", good ? "all as it must be" : "NOT all as it must be");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace shardwright::testing

int main(int argc, char** argv) {
  google::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  return shardwright::testing::Run();
}
