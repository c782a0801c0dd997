#include "shardwright/core/comm/rank_environment.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

constexpr int32_t kMaxRanks = 1 << 20;

// The environment, with typed reads and messages that name the variable.
class Variables {
 public:
  explicit Variables(const std::function<std::optional<std::string>(const char*)>& getenv) : getenv_(getenv) {}

  std::optional<std::string> Get(const char* name) const {
    std::optional<std::string> value = getenv_(name);
    if (value && value->empty()) value.reset();
    return value;
  }
  bool Has(const char* name) const { return Get(name).has_value(); }

  // The first of `names` that is set.
  std::optional<std::string> GetFirst(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (std::optional<std::string> value = Get(name)) return value;
    }
    return std::nullopt;
  }

  bool IsTrue(const char* name) const {
    const std::string value = absl::AsciiStrToLower(Get(name).value_or(""));
    return value == "1" || value == "true";
  }

  // `because` names the variable whose presence asks for this one.
  absl::StatusOr<std::string> Require(const char* name, const char* because) const {
    if (std::optional<std::string> value = Get(name)) return *value;
    return absl::InvalidArgumentError(absl::StrCat("reading the rank environment: ", name, " is not set, but ", because,
                                                   " is: set both, or neither for a single process"));
  }

  absl::StatusOr<int32_t> RequireInt(const char* name, const char* because, int32_t low, int32_t high) const {
    SW_ASSIGN_OR_RETURN(const std::string text, Require(name, because));
    return ParseInt(name, text, low, high);
  }

  static absl::StatusOr<int32_t> ParseInt(const char* name, const std::string& text, int32_t low, int32_t high) {
    int32_t value;
    if (absl::SimpleAtoi(text, &value) && value >= low && value <= high) return value;
    return absl::InvalidArgumentError(absl::StrCat("reading the rank environment: ", name, " is \"", text,
                                                   "\", want a number from ", low, " to ", high));
  }

 private:
  const std::function<std::optional<std::string>(const char*)>& getenv_;
};

absl::Status CheckBelow(const char* name, int32_t value, const char* limit_name, int32_t limit) {
  if (value < limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("reading the rank environment: ", name, " is ", value,
                                                 ", want less than ", limit_name, " (", limit, ")"));
}

absl::Status CheckRanks(const RankEnvironment& environment, const char* rank, const char* world, const char* local_rank,
                        const char* local_world) {
  SW_RETURN_IF_ERROR(CheckBelow(rank, environment.rank, world, environment.world_size));
  SW_RETURN_IF_ERROR(CheckBelow(local_rank, environment.local_rank, local_world, environment.local_world_size));
  if (environment.local_world_size <= environment.world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("reading the rank environment: ", local_world, " is ",
                                                 environment.local_world_size, ", want at most ", world, " (",
                                                 environment.world_size, ")"));
}

absl::StatusOr<RankEnvironment> ReadTorchrun(const Variables& variables, const char* because) {
  RankEnvironment result;
  const bool launched = variables.IsTrue("SHARDWRIGHT_STORE_HOSTED");
  result.source = launched ? "launcher" : "torchrun";
  result.store_is_hosted = launched || variables.IsTrue("TORCHELASTIC_USE_AGENT_STORE");
  SW_ASSIGN_OR_RETURN(result.rank, variables.RequireInt("RANK", because, 0, kMaxRanks - 1));
  SW_ASSIGN_OR_RETURN(result.world_size, variables.RequireInt("WORLD_SIZE", because, 1, kMaxRanks));
  SW_ASSIGN_OR_RETURN(result.local_rank, variables.RequireInt("LOCAL_RANK", because, 0, kMaxRanks - 1));
  SW_ASSIGN_OR_RETURN(result.local_world_size, variables.RequireInt("LOCAL_WORLD_SIZE", because, 1, kMaxRanks));
  SW_RETURN_IF_ERROR(CheckRanks(result, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"));
  if (variables.Has("TORCHELASTIC_RESTART_COUNT")) {
    SW_ASSIGN_OR_RETURN(result.attempt, variables.RequireInt("TORCHELASTIC_RESTART_COUNT", because, 0,
                                                             std::numeric_limits<int32_t>::max()));
  }
  if (result.world_size == 1 && !variables.Has("MASTER_ADDR") && !variables.Has("MASTER_PORT")) return result;
  SW_ASSIGN_OR_RETURN(result.master_address, variables.Require("MASTER_ADDR", because));
  SW_ASSIGN_OR_RETURN(result.master_port, variables.RequireInt("MASTER_PORT", because, 1, 65535));
  return result;
}

// Where SLURM says how many tasks this node runs; the step's own account is the most exact.
absl::StatusOr<int32_t> SlurmLocalSize(const Variables& variables, int32_t world_size) {
  int32_t node = 0;
  if (std::optional<std::string> text = variables.Get("SLURM_NODEID")) {
    SW_ASSIGN_OR_RETURN(node, Variables::ParseInt("SLURM_NODEID", *text, 0, kMaxRanks));
  }
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
    const std::optional<std::string> text = variables.Get(name);
    if (!text) continue;
    // One number without a list holds for every node.
    const bool is_list = absl::StrContains(*text, ",") || absl::StrContains(*text, "(");
    SW_ASSIGN_OR_RETURN(const int32_t tasks, SlurmTasksOnNode(*text, is_list ? node : 0),
                        _ << "reading the rank environment: " << name);
    return tasks;
  }
  if (variables.Get("SLURM_NNODES").value_or("1") == "1") return world_size;
  return absl::InvalidArgumentError(
      "reading the rank environment: SLURM_PROCID is set and SLURM_NNODES is more than 1, but none of "
      "SLURM_STEP_TASKS_PER_NODE, SLURM_TASKS_PER_NODE and SLURM_NTASKS_PER_NODE is: want the tasks of this node");
}

// Rank 0 runs on the first host of the list; the launch node (perhaps a login node) is but the last resort.
absl::StatusOr<std::string> SlurmAddress(const Variables& variables, bool one_node) {
  if (std::optional<std::string> address = variables.Get("MASTER_ADDR")) return *address;
  if (one_node) return std::string("127.0.0.1");
  if (std::optional<std::string> list =
          variables.GetFirst({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})) {
    return FirstSlurmHost(*list);
  }
  if (std::optional<std::string> address = variables.Get("SLURM_LAUNCH_NODE_IPADDR")) return *address;
  return absl::InvalidArgumentError(
      "reading the rank environment: SLURM_PROCID is set, but none of MASTER_ADDR, SLURM_STEP_NODELIST, "
      "SLURM_JOB_NODELIST "
      "and SLURM_LAUNCH_NODE_IPADDR is: want the address of rank 0");
}

// Below the range from which the kernel hands out ports, above the well-known ones; the same on every rank of a step.
absl::StatusOr<int32_t> SlurmPort(const Variables& variables) {
  if (variables.Has("MASTER_PORT")) return variables.RequireInt("MASTER_PORT", "SLURM_PROCID", 1, 65535);
  SW_ASSIGN_OR_RETURN(const std::string text, variables.Require("SLURM_JOB_ID", "SLURM_PROCID"),
                      _ << "deriving the port of the store");
  uint64_t job;
  if (!absl::SimpleAtoi(text, &job)) {
    return absl::InvalidArgumentError(
        absl::StrCat("reading the rank environment: SLURM_JOB_ID is \"", text, "\", want a number"));
  }
  constexpr uint64_t kFirstPort = 15000, kPorts = 15000, kPortsBetweenSteps = 101;
  uint64_t step = 0;
  // A step may have a name instead of a number ("batch"); then it is the only one.
  if (!absl::SimpleAtoi(variables.Get("SLURM_STEP_ID").value_or("0"), &step)) step = 0;
  return static_cast<int32_t>(kFirstPort + (job % kPorts + step % kPorts * kPortsBetweenSteps) % kPorts);
}

absl::StatusOr<RankEnvironment> ReadSlurm(const Variables& variables) {
  constexpr char kBecause[] = "SLURM_PROCID";
  RankEnvironment result;
  result.source = "SLURM";
  SW_ASSIGN_OR_RETURN(result.rank, variables.RequireInt("SLURM_PROCID", kBecause, 0, kMaxRanks - 1));
  SW_ASSIGN_OR_RETURN(result.world_size, variables.RequireInt("SLURM_NTASKS", kBecause, 1, kMaxRanks));
  SW_ASSIGN_OR_RETURN(result.local_rank, variables.RequireInt("SLURM_LOCALID", kBecause, 0, kMaxRanks - 1));
  SW_ASSIGN_OR_RETURN(result.local_world_size, SlurmLocalSize(variables, result.world_size));
  SW_RETURN_IF_ERROR(CheckRanks(result, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "tasks per node"));
  if (result.world_size == 1) return result;
  SW_ASSIGN_OR_RETURN(result.master_address, SlurmAddress(variables, result.local_world_size == result.world_size));
  SW_ASSIGN_OR_RETURN(result.master_port, SlurmPort(variables));
  return result;
}

// "[03-07,12]" at the front of `text` -> "03"; moves `text` past it.
absl::StatusOr<std::string> FirstOfBracket(absl::string_view* text) {
  const size_t close = text->find(']');
  if (close == absl::string_view::npos) return absl::InvalidArgumentError("\"[\" without \"]\"");
  const absl::string_view inside = text->substr(1, close - 1);
  const std::string first(inside.substr(0, inside.find_first_of(",-")));
  if (first.empty()) return absl::InvalidArgumentError("\"[]\" without a number");
  *text = text->substr(close + 1);
  return first;
}

}  // namespace

absl::StatusOr<std::string> FirstSlurmHost(absl::string_view node_list) {
  std::string host;
  absl::string_view rest = node_list;
  while (!rest.empty() && rest[0] != ',') {
    if (rest[0] == '[') {
      SW_ASSIGN_OR_RETURN(const std::string first, FirstOfBracket(&rest),
                          _ << "reading the first host of \"" << std::string(node_list) << "\"");
      host += first;
    } else {
      host += rest[0];
      rest.remove_prefix(1);
    }
  }
  if (host.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("reading the first host of \"", node_list, "\": it is empty"));
  }
  return host;
}

absl::StatusOr<int32_t> SlurmTasksOnNode(absl::string_view tasks_per_node, int32_t node) {
  int64_t left = node;
  for (absl::string_view part : absl::StrSplit(tasks_per_node, ',')) {
    int32_t tasks, repeats = 1;
    const std::vector<absl::string_view> pieces = absl::StrSplit(part, absl::MaxSplits("(x", 1));
    bool good = absl::SimpleAtoi(pieces[0], &tasks) && tasks > 0;
    if (good && pieces.size() == 2) {
      absl::string_view repeat = pieces[1];
      good = absl::ConsumeSuffix(&repeat, ")") && absl::SimpleAtoi(repeat, &repeats) && repeats > 0;
    }
    if (!good) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", tasks_per_node, "\" at \"", part, "\": want a list like \"4(x2),3\""));
    }
    if (left < repeats) return tasks;
    left -= repeats;
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", tasks_per_node, "\" has no node ", node));
}

absl::StatusOr<RankEnvironment> ReadRankEnvironment(
    const std::function<std::optional<std::string>(const char* name)>& getenv) {
  const Variables variables(getenv);
  // MASTER_ADDR and MASTER_PORT alone say nothing: job scripts export them for whole allocations.
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    if (variables.Has(name)) return ReadTorchrun(variables, name);
  }
  if (variables.Has("SLURM_PROCID")) return ReadSlurm(variables);
  RankEnvironment single;
  single.source = "single process";
  return single;
}

absl::StatusOr<RankEnvironment> ReadRankEnvironment() {
  return ReadRankEnvironment([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace shardwright
