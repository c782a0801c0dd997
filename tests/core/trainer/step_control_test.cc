#include "shardwright/core/trainer/step_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <string>
#include <vector>

#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

// What each of the ranks gets when rank r brings mine[r].
std::vector<StepAgreement> Agree(const std::vector<StepAgreement>& mine) {
  std::vector<StepAgreement> agreed(mine.size());
  const std::vector<absl::Status> statuses = RunRanks(mine.size(), [&](CommGroups& groups) -> absl::Status {
    SW_ASSIGN_OR_RETURN(agreed[groups.rank()], AgreeOnStep(*groups.control, mine[groups.rank()]));
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(IsOk()));
  return agreed;
}

TEST(AgreeOnStepTest, LossIsTheMean) {
  for (const StepAgreement& agreed : Agree({{.loss = 1}, {.loss = 2}, {.loss = 6}})) EXPECT_EQ(agreed.loss, 3);
  for (const StepAgreement& agreed : Agree({{.loss = 1}, {.loss = std::nan("")}})) EXPECT_TRUE(std::isnan(agreed.loss));
}

TEST(AgreeOnStepTest, OneRanksSignalIsEveryones) {
  for (const StepAgreement& agreed : Agree({{}, {}, {.stop_signal = SIGINT}})) EXPECT_EQ(agreed.stop_signal, SIGINT);
  for (const StepAgreement& agreed : Agree({{.stop_signal = SIGINT}, {.stop_signal = SIGTERM}})) {
    EXPECT_EQ(agreed.stop_signal, SIGTERM);
  }
  for (const StepAgreement& agreed : Agree({{}, {}})) EXPECT_EQ(agreed.stop_signal, 0);
}

TEST(AgreeOnStepTest, OnlyRankZeroMakesADecisionDue) {
  for (const StepAgreement& agreed : Agree({{.decision_due = true}, {}})) EXPECT_TRUE(agreed.decision_due);
  for (const StepAgreement& agreed : Agree({{}, {.decision_due = true}})) EXPECT_FALSE(agreed.decision_due);
}

TEST(ShareActionTest, RankZerosWishesCount) {
  const Action wish = {.save = true, .links = {"best", "weekly"}, .stop = true, .stop_reason = "flat"};
  std::vector<Action> got(3);
  RunRanks(3, [&](CommGroups& groups) -> absl::Status {
    const Action mine = groups.rank() == 0 ? wish : Action{.links = {"nonsense"}};
    SW_ASSIGN_OR_RETURN(got[groups.rank()], ShareAction(*groups.control, mine));
    return absl::OkStatus();
  });
  EXPECT_THAT(got, Each(wish));
}

TEST(OnRankZeroTest, TheAnswerReachesAll) {
  std::vector<std::string> got(3);
  RunRanks(3, [&](CommGroups& groups) -> absl::Status {
    SW_ASSIGN_OR_RETURN(got[groups.rank()], OnRankZero(*groups.control, [&]() -> absl::StatusOr<std::string> {
                          return groups.rank() == 0 ? "answer" : "never asked";
                        }));
    return absl::OkStatus();
  });
  EXPECT_THAT(got, Each("answer"));
}

TEST(OnRankZeroTest, TheErrorReachesAll) {
  const std::vector<absl::Status> statuses = RunRanks(3, [&](CommGroups& groups) -> absl::Status {
    return OnRankZero(*groups.control, []() -> absl::StatusOr<std::string> { return absl::NotFoundError("gone"); })
        .status();
  });
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kNotFound, HasSubstr("gone"))));
}

TEST(EncodeActionTest, RoundTrips) {
  for (const Action& action : {Action{}, Action{.save = true}, Action{.stop = true, .stop_reason = "a; b\nc"},
                               Action{.save = true, .links = {"last"}}, Action{.links = {"", "x y", "é"}}}) {
    EXPECT_THAT(DecodeAction(EncodeAction(action)), IsOkAndHolds(action));
  }
}

TEST(EncodeActionTest, ANulInATextDoesNotForgeAField) {
  const Action action = {.stop_reason = std::string("a\0b", 3)};
  EXPECT_THAT(DecodeAction(EncodeAction(action)), IsOkAndHolds(Action{.stop_reason = "a b"}));
}

// No cut message and no changed flag is taken for another decision to save or to stop.
TEST(DecodeActionTest, DamagedMessagesDoNotDecide) {
  const Action action = {.save = true, .links = {"last"}, .stop = true, .stop_reason = "flat"};
  const std::string message = EncodeAction(action);
  for (size_t size = 0; size < 4; ++size) {
    EXPECT_THAT(DecodeAction(message.substr(0, size)), StatusIs(absl::StatusCode::kInternal)) << size;
  }
  for (size_t size = 4; size < message.size(); ++size) {
    SW_ASSERT_OK_AND_ASSIGN(const Action cut, DecodeAction(message.substr(0, size)));
    EXPECT_TRUE(cut.save && cut.stop);
  }
  for (size_t flag : {0, 2}) {
    for (int bit = 1; bit < 8; ++bit) {
      std::string flipped = message;
      flipped[flag] = static_cast<char>(flipped[flag] ^ (1 << bit));
      EXPECT_THAT(DecodeAction(flipped), StatusIs(absl::StatusCode::kInternal)) << flag << " " << bit;
    }
  }
}

}  // namespace
}  // namespace shardwright
