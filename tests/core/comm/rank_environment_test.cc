#include "shardwright/core/comm/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Environment = std::map<std::string, std::string>;

absl::StatusOr<RankEnvironment> Read(const Environment& environment) {
  return ReadRankEnvironment([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

Environment With(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

Environment Without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "10.0.0.7"},
                               {"MASTER_PORT", "29500"}};

const Environment kSlurm = {{"SLURM_PROCID", "5"},
                            {"SLURM_NTASKS", "8"},
                            {"SLURM_LOCALID", "1"},
                            {"SLURM_NODEID", "1"},
                            {"SLURM_NNODES", "2"},
                            {"SLURM_NTASKS_PER_NODE", "4"},
                            {"SLURM_JOB_NODELIST", "gpu[03-04]"},
                            {"SLURM_JOB_ID", "1234567"}};

TEST(RankEnvironmentTest, NothingSetIsASingleProcess) {
  EXPECT_THAT(Read({}), IsOkAndHolds(RankEnvironment{.source = "single process"}));
}

TEST(RankEnvironmentTest, AnAddressAloneIsASingleProcess) {
  EXPECT_THAT(Read({{"MASTER_ADDR", "10.0.0.7"}, {"MASTER_PORT", "29500"}}),
              IsOkAndHolds(RankEnvironment{.source = "single process"}));
}

TEST(RankEnvironmentTest, EmptyCountsAsAbsent) {
  EXPECT_THAT(Read({{"RANK", ""}, {"SLURM_PROCID", ""}}), IsOkAndHolds(RankEnvironment{.source = "single process"}));
}

TEST(RankEnvironmentTest, Torchrun) {
  const RankEnvironment expected = {.rank = 5,
                                    .world_size = 8,
                                    .local_rank = 1,
                                    .local_world_size = 4,
                                    .master_address = "10.0.0.7",
                                    .master_port = 29500,
                                    .source = "torchrun"};
  EXPECT_THAT(Read(kTorchrun), IsOkAndHolds(expected));
}

TEST(RankEnvironmentTest, TorchrunWinsOverSlurm) {
  SW_ASSERT_OK_AND_ASSIGN(const RankEnvironment read, Read(With(kSlurm, kTorchrun)));
  EXPECT_EQ(read.source, "torchrun");
}

TEST(RankEnvironmentTest, TorchrunsAgentServesTheStore) {
  SW_ASSERT_OK_AND_ASSIGN(
      RankEnvironment read,
      Read(With(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}})));
  EXPECT_TRUE(read.store_is_hosted);
  EXPECT_EQ(read.attempt, 2);
  EXPECT_EQ(read.source, "torchrun");
  SW_ASSERT_OK_AND_ASSIGN(read, Read(With(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})));
  EXPECT_FALSE(read.store_is_hosted);
}

TEST(RankEnvironmentTest, OurLauncherServesTheStore) {
  SW_ASSERT_OK_AND_ASSIGN(const RankEnvironment read, Read(With(kTorchrun, {{"SHARDWRIGHT_STORE_HOSTED", "1"}})));
  EXPECT_TRUE(read.store_is_hosted);
  EXPECT_EQ(read.source, "launcher");
}

TEST(RankEnvironmentTest, AWorldOfOneNeedsNoAddress) {
  Environment one = {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};
  EXPECT_THAT(Read(one), IsOkAndHolds(RankEnvironment{.source = "torchrun"}));
  one["MASTER_ADDR"] = "10.0.0.7";
  EXPECT_THAT(Read(one), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("MASTER_PORT is not set")));
}

TEST(RankEnvironmentTest, HalfSetTorchrunNamesWhatIsMissing) {
  for (const auto& [name, value] : kTorchrun) {
    EXPECT_THAT(Read(Without(kTorchrun, name)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name + " is not set")));
  }
  EXPECT_THAT(Read({{"RANK", "0"}}), StatusIs(absl::StatusCode::kInvalidArgument,
                                              AllOf(HasSubstr("WORLD_SIZE is not set"), HasSubstr("but RANK is"))));
}

TEST(RankEnvironmentTest, ImpossibleTorchrunNamesVariableValueAndWant) {
  const auto expect = [](const Environment& changes, const std::string& message) {
    EXPECT_THAT(Read(With(kTorchrun, changes)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect({{"RANK", "8"}}, "RANK is 8, want less than WORLD_SIZE (8)");
  expect({{"LOCAL_RANK", "4"}}, "LOCAL_RANK is 4, want less than LOCAL_WORLD_SIZE (4)");
  expect({{"LOCAL_WORLD_SIZE", "9"}}, "LOCAL_WORLD_SIZE is 9, want at most WORLD_SIZE (8)");
  expect({{"WORLD_SIZE", "0"}}, "WORLD_SIZE is \"0\", want a number from 1");
  expect({{"RANK", "-1"}}, "RANK is \"-1\"");
  expect({{"RANK", "1x"}}, "RANK is \"1x\"");
  expect({{"WORLD_SIZE", "99999999999"}}, "WORLD_SIZE is \"99999999999\"");
  expect({{"MASTER_PORT", "0"}}, "MASTER_PORT is \"0\", want a number from 1 to 65535");
  expect({{"MASTER_PORT", "70000"}}, "MASTER_PORT is \"70000\"");
  expect({{"TORCHELASTIC_RESTART_COUNT", "many"}}, "TORCHELASTIC_RESTART_COUNT is \"many\"");
}

TEST(RankEnvironmentTest, Slurm) {
  const RankEnvironment expected = {.rank = 5,
                                    .world_size = 8,
                                    .local_rank = 1,
                                    .local_world_size = 4,
                                    .master_address = "gpu03",
                                    .master_port = 15000 + 1234567 % 15000,
                                    .source = "SLURM"};
  EXPECT_THAT(Read(kSlurm), IsOkAndHolds(expected));
}

TEST(RankEnvironmentTest, SlurmTasksPerNodeInEveryForm) {
  const auto local_size = [](const Environment& changes) {
    const auto read = Read(With(kSlurm, changes));
    return read.ok() ? read->local_world_size : -1;
  };
  EXPECT_EQ(local_size({{"SLURM_NTASKS_PER_NODE", "4(x2)"}}), 4);
  EXPECT_EQ(local_size({{"SLURM_NTASKS_PER_NODE", "5,3"}}), 3);
  EXPECT_EQ(local_size({{"SLURM_TASKS_PER_NODE", "6,2"}}), 2);
  EXPECT_EQ(local_size({{"SLURM_TASKS_PER_NODE", "6,2"}, {"SLURM_STEP_TASKS_PER_NODE", "3,5"}}), 5);
  EXPECT_EQ(local_size({{"SLURM_NODEID", "0"}, {"SLURM_TASKS_PER_NODE", "6,2"}}), 6);
}

TEST(RankEnvironmentTest, SlurmOnOneNodeNeedsNoTasksPerNodeAndStaysOnLoopback) {
  Environment one_node = Without(With(kSlurm, {{"SLURM_NNODES", "1"}}), "SLURM_NTASKS_PER_NODE");
  SW_ASSERT_OK_AND_ASSIGN(const RankEnvironment read, Read(With(one_node, {{"SLURM_NODEID", "0"}})));
  EXPECT_EQ(read.local_world_size, 8);
  EXPECT_EQ(read.master_address, "127.0.0.1");
}

TEST(RankEnvironmentTest, SlurmAddressInOrderOfTrust) {
  const auto address = [](const Environment& environment) {
    const auto read = Read(environment);
    return read.ok() ? read->master_address : read.status().ToString();
  };
  Environment environment = With(kSlurm, {{"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}});
  EXPECT_EQ(address(environment), "gpu03");
  EXPECT_EQ(address(With(environment, {{"SLURM_STEP_NODELIST", "gpu04"}})), "gpu04");
  EXPECT_EQ(address(With(environment, {{"MASTER_ADDR", "10.0.0.7"}})), "10.0.0.7");
  environment.erase("SLURM_JOB_NODELIST");
  EXPECT_EQ(address(environment), "10.0.0.1");
  environment.erase("SLURM_LAUNCH_NODE_IPADDR");
  EXPECT_THAT(Read(environment), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SLURM_JOB_NODELIST")));
}

TEST(RankEnvironmentTest, SlurmPortIsStableFreeOfCommonOnesAndSetByMasterPort) {
  const auto port = [](const Environment& changes) { return Read(With(kSlurm, changes))->master_port; };
  EXPECT_EQ(port({{"MASTER_PORT", "4711"}}), 4711);
  for (const char* job : {"0", "1", "14999", "15000", "99999999999"}) {
    EXPECT_GE(port({{"SLURM_JOB_ID", job}}), 15000) << job;
    EXPECT_LT(port({{"SLURM_JOB_ID", job}}), 30000) << job;
  }
  EXPECT_NE(port({{"SLURM_STEP_ID", "1"}}), port({{"SLURM_STEP_ID", "2"}}));
  EXPECT_EQ(port({{"SLURM_STEP_ID", "batch"}}), port({}));
  EXPECT_THAT(Read(Without(kSlurm, "SLURM_JOB_ID")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SLURM_JOB_ID is not set")));
  EXPECT_THAT(Read(With(kSlurm, {{"SLURM_JOB_ID", "x"}})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SLURM_JOB_ID is \"x\"")));
}

TEST(RankEnvironmentTest, HalfSetOrImpossibleSlurm) {
  const auto expect = [](const Environment& environment, const std::string& message) {
    EXPECT_THAT(Read(environment), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect(Without(kSlurm, "SLURM_NTASKS"), "SLURM_NTASKS is not set, but SLURM_PROCID is");
  expect(Without(kSlurm, "SLURM_LOCALID"), "SLURM_LOCALID is not set");
  expect(Without(kSlurm, "SLURM_NTASKS_PER_NODE"), "SLURM_TASKS_PER_NODE");
  expect(With(kSlurm, {{"SLURM_PROCID", "8"}}), "SLURM_PROCID is 8, want less than SLURM_NTASKS (8)");
  expect(With(kSlurm, {{"SLURM_LOCALID", "4"}}), "SLURM_LOCALID is 4, want less than tasks per node (4)");
  expect(With(kSlurm, {{"SLURM_NTASKS_PER_NODE", "4(x2"}}), "SLURM_NTASKS_PER_NODE");
  expect(With(kSlurm, {{"SLURM_NODEID", "two"}}), "SLURM_NODEID is \"two\"");
}

// salloc's shell has SLURM_NTASKS but no rank.
TEST(RankEnvironmentTest, ASlurmAllocationWithoutAStepIsASingleProcess) {
  EXPECT_EQ(Read(Without(kSlurm, "SLURM_PROCID"))->source, "single process");
}

TEST(RankEnvironmentTest, ReadsTheRealEnvironment) {
  for (const auto& [name, value] : kTorchrun) ASSERT_EQ(setenv(name.c_str(), value.c_str(), 1), 0);
  EXPECT_EQ(ReadRankEnvironment()->rank, 5);
  for (const auto& [name, value] : kTorchrun) unsetenv(name.c_str());
}

TEST(FirstSlurmHostTest, EveryForm) {
  EXPECT_THAT(FirstSlurmHost("gpu1"), IsOkAndHolds(std::string("gpu1")));
  EXPECT_THAT(FirstSlurmHost("gpu1,gpu2"), IsOkAndHolds(std::string("gpu1")));
  EXPECT_THAT(FirstSlurmHost("gpu[03-07,12],login1"), IsOkAndHolds(std::string("gpu03")));
  EXPECT_THAT(FirstSlurmHost("gpu[12,03-07]-ib"), IsOkAndHolds(std::string("gpu12-ib")));
  EXPECT_THAT(FirstSlurmHost("rack[1-2]node[3-4]"), IsOkAndHolds(std::string("rack1node3")));
}

TEST(FirstSlurmHostTest, DamagedListsAreRefused) {
  for (const char* list : {"", ",gpu1", "gpu[", "gpu[03-07", "gpu[]", "gpu[,1]", "gpu[-3]"}) {
    EXPECT_THAT(FirstSlurmHost(list), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("first host"))) << list;
  }
}

TEST(SlurmTasksOnNodeTest, EveryForm) {
  EXPECT_THAT(SlurmTasksOnNode("4", 0), IsOkAndHolds(4));
  EXPECT_THAT(SlurmTasksOnNode("4(x2),3", 0), IsOkAndHolds(4));
  EXPECT_THAT(SlurmTasksOnNode("4(x2),3", 1), IsOkAndHolds(4));
  EXPECT_THAT(SlurmTasksOnNode("4(x2),3", 2), IsOkAndHolds(3));
  EXPECT_THAT(SlurmTasksOnNode("2(x2000000000),7", 1999999999), IsOkAndHolds(2));
}

TEST(SlurmTasksOnNodeTest, DamagedTextIsRefused) {
  for (const char* text : {"", "x", "0", "-1", "4(x", "4(x)", "4(x0)", "4(x2))", "4(2)", "4(x2)3", "99999999999"}) {
    EXPECT_THAT(SlurmTasksOnNode(text, 0), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
  EXPECT_THAT(SlurmTasksOnNode("4(x2)", 2), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no node 2")));
}

// Whatever is cut off or flipped gives an answer or an error, never a crash or a hang.
TEST(SlurmTasksOnNodeTest, SurvivesDamageEverywhere) {
  const std::string text = "4(x2),3,17(x12)";
  for (size_t i = 0; i < text.size(); ++i) {
    SlurmTasksOnNode(text.substr(0, i), 5).status().IgnoreError();
    FirstSlurmHost("gpu[" + text.substr(0, i)).status().IgnoreError();
    for (int flip = 1; flip < 256; ++flip) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const auto tasks = SlurmTasksOnNode(damaged, 2);
      EXPECT_TRUE(!tasks.ok() || *tasks > 0) << damaged;
    }
  }
}

}  // namespace
}  // namespace shardwright
