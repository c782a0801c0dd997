#include "shardwright/core/tensor/device_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/plan/load_plan.h"
#include "shardwright/core/plan/match.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/checkpoint_runs.h"
#include "shardwright/tests/testing/fake_device.h"
#include "shardwright/tests/testing/state_maker.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::AwkwardTensors;
using ::shardwright::testing::CopiesHappen;
using ::shardwright::testing::FakeDevice;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::kPoison;
using ::shardwright::testing::MadeTensor;
using ::shardwright::testing::Make;
using ::shardwright::testing::Meta;
using ::shardwright::testing::RankState;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kDeviceBytes = 64 << 20;

std::string Text(const LocalTensor& tensor) {
  return tensor.box.empty() ? "" : std::string(tensor.data, tensor.bytes());
}

// A box of `tensor` that this rank holds, at random; perhaps empty, perhaps no single run.
Box RandomBox(const LocalTensor& tensor, std::mt19937_64& random) {
  Box box = tensor.box;
  for (int d = 0; d < box.rank(); ++d) {
    const int64_t begin = static_cast<int64_t>(random() % (tensor.box.size[d] + 1));
    const int64_t end = begin + static_cast<int64_t>(random() % (tensor.box.size[d] - begin + 1));
    box.offset[d] += begin;
    box.size[d] = end - begin;
  }
  return box;
}

struct Setup {
  CopiesHappen when;
  uint64_t window_bytes;
};

// The same tensors in host memory and on the device.
class DeviceTensorsTest : public ::testing::TestWithParam<Setup> {
 protected:
  void Hold(const std::vector<MadeTensor>& tensors, PlacementRule rule = &ReplicatedBox, int32_t world_size = 1) {
    host_ = std::make_unique<RankState>(tensors, rule, world_size - 1, world_size);
    on_device_ = device_.Upload(host_->state());
  }
  DeviceStaging Staging() { return device_.MakeStaging(GetParam().window_bytes); }
  const LocalState& host() const { return host_->state(); }

  std::mt19937_64 random_{3};
  FakeDevice device_{kDeviceBytes, GetParam().when};
  std::unique_ptr<RankState> host_;
  LocalState on_device_;
};

TEST_P(DeviceTensorsTest, ReadsWhatIsThereInAnyOrder) {
  Hold(AwkwardTensors(), &RowShardBox, 2);
  const LocalTensors expected(host());
  const DeviceSource source(on_device_, Staging());
  for (int i = 0; i < 2000; ++i) {
    const LocalTensor& tensor = host()[random_() % host().size()];
    const Box box = i < static_cast<int>(host().size()) ? host()[i].box : RandomBox(tensor, random_);
    const LocalTensor& asked = i < static_cast<int>(host().size()) ? host()[i] : tensor;
    std::string want(asked.meta.BytesOf(box), '\0'), got = want;
    ASSERT_THAT(expected.Read(asked.meta.name, box, absl::MakeSpan(want)), IsOk());
    ASSERT_THAT(source.Read(asked.meta.name, box, absl::MakeSpan(got)), IsOk());
    ASSERT_EQ(got, want) << asked.meta.name << box.ToString();
  }
  EXPECT_TRUE(source.Direct(host()[0].meta.name, host()[0].box).empty()) << "the host cannot see it";
}

TEST_P(DeviceTensorsTest, WritesWhereItBelongs) {
  Hold(AwkwardTensors(), &RowShardBox, 2);
  LocalTensors expected(host());
  DeviceSink sink(on_device_, Staging());
  for (int i = 0; i < 2000; ++i) {
    const LocalTensor& tensor = host()[random_() % host().size()];
    const Box box = RandomBox(tensor, random_);
    std::string bytes(tensor.meta.BytesOf(box), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    ASSERT_THAT(expected.Write(tensor.meta.name, box, bytes), IsOk());
    ASSERT_THAT(sink.Write(tensor.meta.name, box, bytes), IsOk());
  }
  ASSERT_THAT(sink.Finish(), IsOk());
  for (size_t i = 0; i < host().size(); ++i) {
    const absl::Span<char> got = device_.BytesOf(on_device_[i]);
    EXPECT_EQ(std::string(got.data(), got.size()), Text(host()[i])) << host()[i].meta.name;
  }
  EXPECT_TRUE(sink.Direct(host()[0].meta.name, host()[0].box).empty());
}

TEST_P(DeviceTensorsTest, ATensorThatIsReadFromEndToEndIsCopiedOnce) {
  Hold({Make(Meta("w", DType::kUInt8, {100000}), random_)});
  const DeviceSource source(on_device_, Staging());
  for (int64_t begin = 0; begin < 100000; begin += 250) {
    std::string got(250, '\0');
    ASSERT_THAT(source.Read("w", Box{{begin}, {250}}, absl::MakeSpan(got)), IsOk());
  }
  EXPECT_EQ(device_.pending_copies(), 0);
  EXPECT_EQ(device_.copied_bytes(), 100000u);
}

TEST_P(DeviceTensorsTest, EveryFailureIsToldAndNoWrongByteReturned) {
  Hold({Make(Meta("w", DType::kUInt8, {300}), random_)});
  const std::string want = Text(host()[0]);
  for (int64_t call = 0;; ++call) {
    const DeviceSource source(on_device_, Staging());
    device_.FailCall(call);
    int failures = 0;
    for (int64_t begin = 0; begin < 300; begin += 50) {
      std::string got(50, '\0');
      const absl::Status status = source.Read("w", Box{{begin}, {50}}, absl::MakeSpan(got));
      if (status.ok()) {
        EXPECT_EQ(got, want.substr(begin, 50));
        continue;
      }
      ++failures;
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("\"w\""), HasSubstr("cuda:0"))));
    }
    if (failures == 0) break;
    EXPECT_EQ(failures, 1);
    ASSERT_LT(call, 5000);
  }
  device_.FailCall(-1);
}

TEST_P(DeviceTensorsTest, AWriteThatFailedStaysFailed) {
  Hold({Make(Meta("w", DType::kUInt8, {300}), random_)});
  const std::string bytes(300, 'x');
  for (int64_t call = 0;; ++call) {
    DeviceSink sink(on_device_, Staging());
    device_.FailCall(call);
    absl::Status first;
    for (int64_t begin = 0; begin < 300; begin += 50) {
      const absl::Status status = sink.Write("w", Box{{begin}, {50}}, absl::string_view(bytes).substr(begin, 50));
      if (first.ok()) first = status;
      EXPECT_EQ(status, first);
    }
    const absl::Status finished = sink.Finish();
    if (finished.ok()) break;
    EXPECT_EQ(finished, first.ok() ? finished : first);
    EXPECT_THAT(finished, StatusIs(absl::StatusCode::kInternal, HasSubstr("cuda:0")));
    ASSERT_LT(call, 5000);
  }
  device_.FailCall(-1);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTensorsTest,
                         ::testing::Values(Setup{CopiesHappen::kAtOnce, 1}, Setup{CopiesHappen::kAtOnce, 64},
                                           Setup{CopiesHappen::kAtSynchronize, 3},
                                           Setup{CopiesHappen::kAtSynchronize, 64},
                                           Setup{CopiesHappen::kAtSynchronize, 4096}));

class OverlapTest : public ::testing::Test {
 protected:
  static constexpr int64_t kBytes = 10000;
  static constexpr uint64_t kWindow = 1000;

  OverlapTest() : host_({Make(Meta("w", DType::kUInt8, {kBytes}), random_)}, &ReplicatedBox, 0, 1) {}

  std::mt19937_64 random_{4};
  RankState host_;
  FakeDevice device_{kDeviceBytes, CopiesHappen::kAtSynchronize};
  LocalState on_device_ = device_.Upload(host_.state());
};

TEST_F(OverlapTest, TheNextWindowIsCopiedWhileThisOneIsUsed) {
  const DeviceSource source(on_device_, device_.MakeStaging(kWindow));
  for (int64_t begin = 0; begin < kBytes; begin += 250) {
    std::string got(250, '\0');
    ASSERT_THAT(source.Read("w", Box{{begin}, {250}}, absl::MakeSpan(got)), IsOk());
    EXPECT_EQ(device_.pending_bytes(), begin + 1000 < kBytes ? kWindow : 0) << begin;
  }
}

TEST_F(OverlapTest, NothingIsReadAheadPastATensorsEnd) {
  const DeviceSource source(on_device_, device_.MakeStaging(kWindow));
  std::string got(100, '\0');
  ASSERT_THAT(source.Read("w", Box{{kBytes - 100}, {100}}, absl::MakeSpan(got)), IsOk());
  EXPECT_EQ(device_.pending_copies(), 0);
  EXPECT_EQ(device_.copied_bytes(), 100u);
}

TEST_F(OverlapTest, WritesReturnBeforeTheirBytesArrive) {
  DeviceSink sink(on_device_, device_.MakeStaging(kWindow));
  const std::string bytes(kBytes, 'x');
  for (int64_t begin = 0; begin < kBytes; begin += 250) {
    ASSERT_THAT(sink.Write("w", Box{{begin}, {250}}, absl::string_view(bytes).substr(begin, 250)), IsOk());
    EXPECT_GE(device_.pending_bytes(), 250u);
    EXPECT_LE(device_.pending_bytes(), 2 * kWindow) << "more than the buffers hold";
  }
  EXPECT_LT(device_.copied_bytes(), static_cast<uint64_t>(kBytes));
  ASSERT_THAT(sink.Finish(), IsOk());
  EXPECT_EQ(device_.pending_copies(), 0);
  EXPECT_EQ(device_.copied_bytes(), static_cast<uint64_t>(kBytes));
}

TEST_F(OverlapTest, GivingUpWaitsForCopiesUnderWay) {
  {
    DeviceSink sink(on_device_, device_.MakeStaging(kWindow));
    ASSERT_THAT(sink.Write("w", Box{{0}, {300}}, std::string(300, 'x')), IsOk());
    EXPECT_EQ(device_.pending_copies(), 1);
  }
  EXPECT_EQ(device_.pending_copies(), 0);
}

TEST_F(OverlapTest, RefusalsNameTensorAndBox) {
  const DeviceSource source(on_device_, device_.MakeStaging(kWindow));
  DeviceSink sink(on_device_, device_.MakeStaging(kWindow));
  std::string bytes(3, '\0');
  EXPECT_THAT(source.Read("v", Box{{0}, {3}}, absl::MakeSpan(bytes)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("reading: tensor \"v\"")));
  EXPECT_THAT(sink.Write("w", Box{{0}, {4}}, bytes),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("writing: tensor \"w\"")));
  EXPECT_THAT(sink.Finish(), IsOk()) << "nothing was begun";
}

TEST_F(OverlapTest, TensorsOfTheHostAreTakenFromWhereTheyLie) {
  char scalar = 'a';
  on_device_.push_back({.meta = Meta("s", DType::kUInt8, {}), .box = Box::Whole({}), .data = &scalar});
  const DeviceSource source(on_device_, device_.MakeStaging(kWindow));
  DeviceSink sink(on_device_, device_.MakeStaging(kWindow));
  ASSERT_THAT(sink.Write("s", Box::Whole({}), absl::string_view("b")), IsOk());
  EXPECT_EQ(scalar, 'b');
  std::string got(1, '\0');
  ASSERT_THAT(source.Read("s", Box::Whole({}), absl::MakeSpan(got)), IsOk());
  EXPECT_EQ(got, "b");
  EXPECT_EQ(device_.copied_bytes(), 0u);
}

TEST_F(OverlapTest, ReadersMayBeThreads) {
  const DeviceSource source(on_device_, device_.MakeStaging(kWindow));
  const std::string want = Text(host_.state()[0]);
  std::vector<std::thread> threads;
  std::vector<std::string> got(4, std::string(kBytes, '\0'));
  for (std::string& mine : got) {
    threads.emplace_back([&] {
      for (int64_t begin = 0; begin < kBytes; begin += 100) {
        EXPECT_THAT(source.Read("w", Box{{begin}, {100}}, absl::MakeSpan(mine).subspan(begin, 100)), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& mine : got) EXPECT_EQ(mine, want);
}

// Through the very code that saves and loads.
TEST(DeviceCheckpointTest, SavesFromOneDeviceAndLoadsIntoAnother) {
  std::mt19937_64 random(5);
  std::vector<MadeTensor> tensors = AwkwardTensors();
  tensors.push_back(Make(Meta("large", DType::kFloat32, {1500, 700}), random));
  for (const CopiesHappen when : {CopiesHappen::kAtOnce, CopiesHappen::kAtSynchronize}) {
    const auto storage = MakeMemoryStorage();
    std::vector<CommGroups> alone = MakeThreadGroups(1);
    MemoryBudget budget;
    FakeDevice from(kDeviceBytes, when);
    const RankState saved(tensors, &ReplicatedBox, 0, 1);
    const LocalState saved_state = from.Upload(saved.state());
    SW_ASSERT_OK_AND_ASSIGN(const SavePlan save, PlanSave(testing::ToSave(tensors), &ReplicatedBox, World{}, {}));
    ASSERT_THAT(SaveCheckpoint(*storage, "c", save, DeviceSource(saved_state, from.MakeStaging(100000)), {}, budget,
                               *alone[0].checkpoint),
                IsOk());
    ASSERT_THAT(testing::CheckHolds(*storage, "c", tensors), IsOk());

    FakeDevice to(kDeviceBytes, when);
    const RankState poisoned(tensors, &ReplicatedBox, 0, 1, kPoison);
    const LocalState loaded = to.Upload(poisoned.state());
    SW_ASSERT_OK_AND_ASSIGN(std::shared_ptr<const Manifest> manifest, OpenManifest(*storage, "c"));
    LoadView view(std::move(manifest));
    MatchResult matched = MatchTensors(view, testing::Wanted(tensors), {}, {.strict = false});
    SW_ASSERT_OK_AND_ASSIGN(const LoadPlan load,
                            PlanLoad(view.shared_manifest(), std::move(matched.tensors), &ReplicatedBox, World{},
                                     {LoadMode::kConcurrent, 1, 300000}, MemoryBudget::kUnlimited));
    DeviceSink sink(loaded, to.MakeStaging(100000));
    ASSERT_THAT(LoadCheckpoint(*storage, "c", load, sink, {}, budget, *alone[0].checkpoint), IsOk());
    EXPECT_EQ(to.pending_copies(), 0) << "the load is over before all bytes have arrived";
    for (size_t i = 0; i < loaded.size(); ++i) {
      const absl::Span<char> got = to.BytesOf(loaded[i]);
      EXPECT_EQ(std::string(got.data(), got.size()), Text(saved.state()[i])) << loaded[i].meta.name;
    }
  }
}

TEST(DeviceCheckpointTest, ALoadWhoseLastCopiesFailIsNoLoad) {
  std::mt19937_64 random(6);
  const std::vector<MadeTensor> tensors = {Make(Meta("w", DType::kFloat32, {50, 50}), random)};
  const auto storage = MakeMemoryStorage();
  ASSERT_THAT(testing::Save(*storage, "c", tensors), IsOk());
  const auto statuses = RunRanks(2, [&](CommGroups& groups) -> absl::Status {
    FakeDevice device(kDeviceBytes, CopiesHappen::kAtSynchronize);
    const RankState state(tensors, &ReplicatedBox, groups.rank(), 2, kPoison);
    const LocalState loaded = device.Upload(state.state());
    SW_ASSIGN_OR_RETURN(std::shared_ptr<const Manifest> manifest, OpenManifest(*storage, "c"));
    LoadView view(std::move(manifest));
    MatchResult matched = MatchTensors(view, testing::Wanted(tensors), {}, {});
    SW_ASSIGN_OR_RETURN(const LoadPlan plan,
                        PlanLoad(view.shared_manifest(), std::move(matched.tensors), &ReplicatedBox, World{2, 2},
                                 {LoadMode::kConcurrent, 1, 1 << 20}, MemoryBudget::kUnlimited));
    DeviceSink sink(loaded, device.MakeStaging(1 << 20));
    if (groups.rank() == 1) device.FailCall(1);  // that which waits for the one copy
    MemoryBudget budget;
    return LoadCheckpoint(*storage, "c", plan, sink, {}, budget, *groups.checkpoint).status();
  });
  EXPECT_THAT(statuses, ::testing::Each(StatusIs(absl::StatusCode::kInternal, HasSubstr("the fake device failed"))));
}

TEST(MakeTensorSource, StatesOfTheHostAreNotStaged) {
  std::mt19937_64 random(7);
  const RankState state({Make(Meta("w", DType::kUInt8, {9}), random)}, &ReplicatedBox, 0, 1);
  MemoryBudget budget(0);
  SW_ASSERT_OK_AND_ASSIGN(const auto source, MakeTensorSource(state.state(), budget));
  EXPECT_EQ(source->Direct("w", Box{{0}, {9}}).size(), 9u);
  SW_ASSERT_OK_AND_ASSIGN(const auto sink, MakeTensorSink(state.state(), budget));
  EXPECT_EQ(sink->Direct("w", Box{{0}, {9}}).size(), 9u);
}

TEST(MakeTensorSource, StagingIsOfTheBudgetAndOfADeviceThatIsThere) {
  std::mt19937_64 random(8);
  const RankState state({Make(Meta("w", DType::kUInt8, {9000}), random)}, &ReplicatedBox, 0, 1);
  FakeDevice device(kDeviceBytes, CopiesHappen::kAtOnce);
  const LocalState on_device = device.Upload(state.state());
  MemoryBudget small(17999);
  const auto refused = StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("staging tensors of cuda:0"));
  EXPECT_THAT(MakeTensorSource(on_device, small), refused);
  EXPECT_THAT(MakeTensorSink(on_device, small), refused);
  if (CudaDeviceCount() > 0) GTEST_SKIP() << "this machine has CUDA devices";
  MemoryBudget enough(18000);
  EXPECT_THAT(MakeTensorSource(on_device, enough), Not(IsOk()));
  EXPECT_THAT(MakeTensorSink(on_device, enough), Not(IsOk()));
  EXPECT_EQ(enough.used_bytes(), 0u);
}

}  // namespace
}  // namespace shardwright
