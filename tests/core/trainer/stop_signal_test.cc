#include "shardwright/core/trainer/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

namespace shardwright {
namespace {

TEST(StopSignalTest, TheFirstSignalIsKept) {
  const StopSignal signals;
  EXPECT_EQ(StopSignal::received(), 0);
  raise(SIGTERM);
  EXPECT_EQ(StopSignal::received(), SIGTERM);
  raise(SIGINT);  // the echo of a launcher
  EXPECT_EQ(StopSignal::received(), SIGTERM);
}

TEST(StopSignalTest, EachRunStartsWithoutOne) {
  {
    const StopSignal signals;
    raise(SIGINT);
    EXPECT_EQ(StopSignal::received(), SIGINT);
  }
  EXPECT_EQ(StopSignal::received(), 0);
  const StopSignal signals;
  EXPECT_EQ(StopSignal::received(), 0);
}

TEST(StopSignalTest, TheyNest) {
  const StopSignal outer;
  {
    const StopSignal inner;
    raise(SIGTERM);
  }
  EXPECT_EQ(StopSignal::received(), SIGTERM);
}

TEST(StopSignalTest, OldHandlersComeBack) {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction old;
  ASSERT_EQ(sigaction(SIGTERM, &ignore, &old), 0);
  { const StopSignal signals; }
  struct sigaction now;
  ASSERT_EQ(sigaction(SIGTERM, &old, &now), 0);
  EXPECT_EQ(now.sa_handler, SIG_IGN);
}

void SendTwice(int first, int second) {
  const StopSignal signals;
  raise(first);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  raise(second);
  std::this_thread::sleep_for(std::chrono::seconds(10));
}

TEST(StopSignalDeathTest, TheSecondEndsTheProcess) {
  EXPECT_EXIT(SendTwice(SIGTERM, SIGTERM), ::testing::ExitedWithCode(128 + SIGTERM), "");
  EXPECT_EXIT(SendTwice(SIGTERM, SIGINT), ::testing::ExitedWithCode(128 + SIGINT), "");
}

}  // namespace
}  // namespace shardwright
