// The contract of Communicator as tests. A communicator is tested by instantiating CommunicatorTest with how to run its
// ranks:
//
//   INSTANTIATE_TEST_SUITE_P(Thread, CommunicatorTest, ::testing::Values(Backend{"thread", &RunRanks}));
#ifndef SHARDWRIGHT_TESTS_CONFORMANCE_COMM_COMMUNICATOR_CONFORMANCE_H_
#define SHARDWRIGHT_TESTS_CONFORMANCE_COMM_COMMUNICATOR_CONFORMANCE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/comm/half_float.h"
#include "shardwright/core/manifest/dtype.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

using RankFunction = std::function<absl::Status(CommGroups& groups)>;

struct Backend {
  std::string name;
  // As RunRanks of thread_communicator.h.
  std::function<std::vector<absl::Status>(int32_t size, const RankFunction& fn, absl::Duration timeout)> run;
};
inline void PrintTo(const Backend& backend, std::ostream* out) {
  *out << backend.name;
}

constexpr DType kAllTypes[] = {
    DType::kBool,    DType::kUInt8,      DType::kInt8,       DType::kUInt16,     DType::kInt16,    DType::kUInt32,
    DType::kInt32,   DType::kUInt64,     DType::kInt64,      DType::kFloat16,    DType::kBFloat16, DType::kFloat32,
    DType::kFloat64, DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kFloat8E8M0, DType::kComplex64};
// Those that every communicator reduces.
constexpr DType kReducedTypes[] = {DType::kUInt8,   DType::kInt8,     DType::kInt32,   DType::kInt64,
                                   DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

// Small whole numbers, which all reduced types hold exactly.
inline void Append(DType dtype, int value, std::string* bytes) {
  const auto append = [&](auto element) { bytes->append(reinterpret_cast<const char*>(&element), sizeof(element)); };
  switch (dtype) {
    case DType::kUInt8:
      return append(static_cast<uint8_t>(value));
    case DType::kInt8:
      return append(static_cast<int8_t>(value));
    case DType::kInt32:
      return append(static_cast<int32_t>(value));
    case DType::kInt64:
      return append(static_cast<int64_t>(value));
    case DType::kFloat16:
      return append(FloatToFloat16(static_cast<float>(value)));
    case DType::kBFloat16:
      return append(FloatToBFloat16(static_cast<float>(value)));
    case DType::kFloat32:
      return append(static_cast<float>(value));
    case DType::kFloat64:
      return append(static_cast<double>(value));
    default:
      FAIL() << DTypeName(dtype);
  }
}

inline std::string Numbers(DType dtype, int64_t count, const std::function<int(int64_t)>& value) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) Append(dtype, value(i), &bytes);
  return bytes;
}

inline std::string RandomBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class CommunicatorTest : public ::testing::TestWithParam<Backend> {
 protected:
  // Runs fn on 1, 2, 3 and 4 ranks; all must end well.
  void RunAll(const RankFunction& fn) {
    for (int32_t size = 1; size <= 4; ++size) {
      SCOPED_TRACE(absl::StrCat(size, " ranks"));
      EXPECT_THAT(Run(size, fn), Each(IsOk()));
    }
  }
  std::vector<absl::Status> Run(int32_t size, const RankFunction& fn, absl::Duration timeout = absl::Minutes(1)) {
    return GetParam().run(size, fn, timeout);
  }
};

TEST_P(CommunicatorTest, RanksAreNumbered) {
  for (int32_t size = 1; size <= 4; ++size) {
    std::vector<std::atomic<int>> seen(size);
    EXPECT_THAT(
        Run(size,
            [&](CommGroups& groups) {
              EXPECT_EQ(groups.size(), size);
              for (const Communicator* comm : {groups.data.get(), groups.control.get(), groups.checkpoint.get()}) {
                EXPECT_EQ(comm->size(), size);
                EXPECT_EQ(comm->rank(), groups.rank());
              }
              ++seen[groups.rank()];
              return absl::OkStatus();
            }),
        Each(IsOk()));
    for (const auto& count : seen) EXPECT_EQ(count, 1);
  }
}

TEST_P(CommunicatorTest, NobodyPassesABarrierBeforeTheLastHasCome) {
  for (int round = 0; round < 3; ++round) {
    std::atomic<int32_t> came = 0;
    EXPECT_THAT(Run(4,
                    [&](CommGroups& groups) -> absl::Status {
                      ++came;
                      SW_RETURN_IF_ERROR(groups.control->Barrier());
                      EXPECT_EQ(came, 4);
                      return absl::OkStatus();
                    }),
                Each(IsOk()));
  }
}

TEST_P(CommunicatorTest, BroadcastOfEveryTypeFromEveryRoot) {
  RunAll([](CommGroups& groups) -> absl::Status {
    for (DType dtype : kAllTypes) {
      for (int32_t root = 0; root < groups.size(); ++root) {
        const std::string sent = RandomBytes(static_cast<size_t>(13 * ItemSize(dtype)), 7 + root);
        std::string data = groups.rank() == root ? sent : std::string(sent.size(), 'x');
        SW_RETURN_IF_ERROR(groups.data->Broadcast(data.data(), 13, dtype, root));
        EXPECT_EQ(data, sent) << DTypeName(dtype);
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, AllReduceOfEveryTypeAndOp) {
  RunAll([](CommGroups& groups) -> absl::Status {
    const int size = groups.size();
    const int sum_of_ranks = size * (size - 1) / 2;
    for (DType dtype : kReducedTypes) {
      const std::pair<ReduceOp, std::function<int(int64_t)>> expected[] = {
          {ReduceOp::kSum, [&](int64_t i) { return static_cast<int>(i) * size + sum_of_ranks; }},
          {ReduceOp::kMin, [](int64_t i) { return static_cast<int>(i); }},
          {ReduceOp::kMax, [&](int64_t i) { return static_cast<int>(i) + size - 1; }},
      };
      for (const auto& [op, result] : expected) {
        std::string data = Numbers(dtype, 21, [&](int64_t i) { return static_cast<int>(i) + groups.rank(); });
        SW_RETURN_IF_ERROR(groups.data->AllReduce(data.data(), 21, dtype, op));
        EXPECT_EQ(data, Numbers(dtype, 21, result)) << DTypeName(dtype) << " " << static_cast<int>(op);
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, MinIsAndAndMaxIsOrOfBools) {
  RunAll([](CommGroups& groups) -> absl::Status {
    uint8_t all[2] = {1, groups.rank() == 0}, any[2] = {0, groups.rank() == 0};
    SW_RETURN_IF_ERROR(groups.data->AllReduce(all, 2, DType::kBool, ReduceOp::kMin));
    SW_RETURN_IF_ERROR(groups.data->AllReduce(any, 2, DType::kBool, ReduceOp::kMax));
    EXPECT_EQ(all[0], 1);
    EXPECT_EQ(all[1], groups.size() == 1);
    EXPECT_EQ(any[0], 0);
    EXPECT_EQ(any[1], 1);
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, LargeSumsAreRightAndTheSameBitsOnAllRanksAndEveryTime) {
  constexpr int64_t kCount = 300001;
  RunAll([](CommGroups& groups) -> absl::Status {
    std::vector<std::vector<float>> inputs(groups.size(), std::vector<float>(kCount));
    for (int32_t rank = 0; rank < groups.size(); ++rank) {
      std::mt19937 random(100 + rank);
      std::normal_distribution<float> normal;
      for (float& value : inputs[rank]) value = normal(random);
    }
    std::vector<float> first;
    for (int round = 0; round < 3; ++round) {
      std::vector<float> data = inputs[groups.rank()];
      SW_RETURN_IF_ERROR(groups.data->AllReduce(data.data(), kCount, DType::kFloat32, ReduceOp::kSum));
      if (round == 0) first = data;
      EXPECT_EQ(std::memcmp(data.data(), first.data(), kCount * sizeof(float)), 0) << "round " << round;
    }
    for (int64_t i = 0; i < kCount; i += 997) {
      double sum = 0;
      for (const auto& input : inputs) sum += input[i];
      EXPECT_NEAR(first[i], sum, 1e-5);
    }
    std::vector<float> roots = first;
    SW_RETURN_IF_ERROR(groups.data->Broadcast(roots.data(), kCount, DType::kFloat32, 0));
    EXPECT_EQ(std::memcmp(roots.data(), first.data(), kCount * sizeof(float)), 0);
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, AllReduceAsyncReturnsBeforeTheOthersHaveCome) {
  for (int32_t size = 2; size <= 4; ++size) {
    absl::Notification went_on;
    EXPECT_THAT(Run(size,
                    [&](CommGroups& groups) -> absl::Status {
                      if (groups.rank() != 0) went_on.WaitForNotification();
                      int64_t value = groups.rank() + 1;
                      SW_ASSIGN_OR_RETURN(const auto work,
                                          groups.data->AllReduceAsync(&value, 1, DType::kInt64, ReduceOp::kSum));
                      if (groups.rank() == 0) went_on.Notify();
                      SW_RETURN_IF_ERROR(work->Wait());
                      EXPECT_EQ(value, size * (size + 1) / 2);
                      return absl::OkStatus();
                    }),
                Each(IsOk()));
  }
}

TEST_P(CommunicatorTest, ManyAsyncReductionsAreUnderWayAtOnce) {
  RunAll([](CommGroups& groups) -> absl::Status {
    constexpr int kWorks = 12;
    std::vector<std::vector<int32_t>> data(kWorks);
    std::vector<std::unique_ptr<Work>> works(kWorks);
    for (int i = 0; i < kWorks; ++i) {
      data[i].assign(1 + 1000 * i, i * (groups.rank() + 1));
      SW_ASSIGN_OR_RETURN(works[i], groups.data->AllReduceAsync(data[i].data(), static_cast<int64_t>(data[i].size()),
                                                                DType::kInt32, ReduceOp::kSum));
    }
    works.resize(kWorks - 2);  // destruction waits, too
    for (const auto& work : works) SW_RETURN_IF_ERROR(work->Wait());
    const int factor = groups.size() * (groups.size() + 1) / 2;
    for (int i = 0; i < kWorks; ++i) EXPECT_THAT(data[i], Each(i * factor));
    return absl::OkStatus();
  });
}

// Pieces of all ranks: even, uneven, empty ones.
inline std::vector<std::vector<int64_t>> CountsFor(int32_t size) {
  std::vector<std::vector<int64_t>> all = {std::vector<int64_t>(size, 5), std::vector<int64_t>(size, 30000),
                                           std::vector<int64_t>(size, 0)};
  std::vector<int64_t> uneven(size), holes(size), one(size, 0);
  for (int32_t rank = 0; rank < size; ++rank) {
    uneven[rank] = 3 + 7 * rank;
    holes[rank] = rank % 2 == 0 ? 0 : 11;
  }
  one[size - 1] = 100000;
  all.push_back(uneven);
  all.push_back(holes);
  all.push_back(one);
  return all;
}

inline int64_t Total(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// Of rank's piece in a string that holds all, in bytes: where and how many.
inline std::pair<size_t, size_t> PlaceOf(int32_t rank, const std::vector<int64_t>& counts, DType dtype) {
  const int64_t begin = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  return {static_cast<size_t>(begin * ItemSize(dtype)), static_cast<size_t>(counts[rank] * ItemSize(dtype))};
}

// A collective over pieces: what this rank brings, and what it expects to find.
struct PiecesCase {
  DType dtype;
  std::vector<int64_t> counts;
  bool gathers;       // else sums
  std::string data;   // of all pieces
  std::string whole;  // of all pieces, of which a reduce-scatter brings its own alone
};

inline PiecesCase GatherCase(const CommGroups& groups, DType dtype, const std::vector<int64_t>& counts) {
  PiecesCase c = {.dtype = dtype, .counts = counts, .gathers = true, .data = {}, .whole = {}};
  c.whole = RandomBytes(static_cast<size_t>(Total(counts) * ItemSize(dtype)), 5);
  c.data.assign(c.whole.size(), 'x');
  const auto [begin, size] = PlaceOf(groups.rank(), counts, dtype);
  c.data.replace(begin, size, c.whole, begin, size);
  return c;
}

inline PiecesCase SumCase(const CommGroups& groups, DType dtype, const std::vector<int64_t>& counts) {
  const int32_t rank = groups.rank(), size = groups.size();
  PiecesCase c = {.dtype = dtype, .counts = counts, .gathers = false, .data = {}, .whole = {}};
  c.data = Numbers(dtype, Total(counts), [&](int64_t i) { return static_cast<int>(i % 17) + rank; });
  c.whole =
      Numbers(dtype, Total(counts), [&](int64_t i) { return static_cast<int>(i % 17) * size + size * (size - 1) / 2; });
  return c;
}

inline absl::StatusOr<std::unique_ptr<Work>> Start(Communicator& comm, PiecesCase& c) {
  if (c.gathers) return comm.AllGatherAsync(c.data.data(), c.counts, c.dtype);
  return comm.ReduceScatterAsync(c.data.data(), c.counts, c.dtype, ReduceOp::kSum);
}

inline void ExpectHolds(const CommGroups& groups, const PiecesCase& c) {
  if (c.gathers) {
    EXPECT_TRUE(c.data == c.whole) << "gather of " << DTypeName(c.dtype);
    return;
  }
  const auto [begin, size] = PlaceOf(groups.rank(), c.counts, c.dtype);
  EXPECT_TRUE(c.data.substr(begin, size) == c.whole.substr(begin, size)) << "sum of " << DTypeName(c.dtype);
}

TEST_P(CommunicatorTest, ReduceScatterOfAnyPieces) {
  RunAll([](CommGroups& groups) -> absl::Status {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64}) {
      for (const std::vector<int64_t>& counts : CountsFor(groups.size())) {
        PiecesCase c = SumCase(groups, dtype, counts);
        SW_RETURN_IF_ERROR(groups.data->ReduceScatter(c.data.data(), counts, dtype, ReduceOp::kSum));
        ExpectHolds(groups, c);
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, AllGatherOfAnyPieces) {
  RunAll([](CommGroups& groups) -> absl::Status {
    for (DType dtype : {DType::kFloat8E4M3, DType::kBFloat16, DType::kComplex64}) {
      for (const std::vector<int64_t>& counts : CountsFor(groups.size())) {
        PiecesCase c = GatherCase(groups, dtype, counts);
        SW_RETURN_IF_ERROR(groups.data->AllGather(c.data.data(), counts, dtype));
        ExpectHolds(groups, c);
      }
    }
    return absl::OkStatus();
  });
}

// As when the next unit is gathered while gradients are reduced.
TEST_P(CommunicatorTest, ManyGathersAndReductionsAreUnderWayAtOnce) {
  RunAll([](CommGroups& groups) -> absl::Status {
    std::vector<PiecesCase> cases;
    for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
      for (const std::vector<int64_t>& counts : CountsFor(groups.size())) {
        cases.push_back(GatherCase(groups, dtype, counts));
        cases.push_back(SumCase(groups, dtype, counts));
      }
    }
    std::vector<std::unique_ptr<Work>> works(cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      SW_ASSIGN_OR_RETURN(works[i], Start(*groups.data, cases[i]));
    }
    // In an order of each rank's own.
    std::vector<size_t> order(cases.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937(groups.rank()));
    for (size_t i : order) {
      SW_RETURN_IF_ERROR(works[i]->Wait());
      ExpectHolds(groups, cases[i]);
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, GathersAndReductionsReturnBeforeTheOthersHaveCome) {
  for (int32_t size = 2; size <= 3; ++size) {
    absl::Notification went_on;
    EXPECT_THAT(Run(size,
                    [&](CommGroups& groups) -> absl::Status {
                      const std::vector<int64_t> counts(size, 40000);
                      PiecesCase gather = GatherCase(groups, DType::kBFloat16, counts);
                      PiecesCase sum = SumCase(groups, DType::kBFloat16, counts);
                      if (groups.rank() != 0) went_on.WaitForNotification();
                      SW_ASSIGN_OR_RETURN(const auto gathering, Start(*groups.data, gather));
                      SW_ASSIGN_OR_RETURN(const auto summing, Start(*groups.data, sum));
                      if (groups.rank() == 0) went_on.Notify();
                      SW_RETURN_IF_ERROR(summing->Wait());
                      ExpectHolds(groups, sum);
                      SW_RETURN_IF_ERROR(gathering->Wait());
                      ExpectHolds(groups, gather);
                      return absl::OkStatus();
                    }),
                Each(IsOk()));
  }
}

TEST_P(CommunicatorTest, NothingAtAllIsFine) {
  RunAll([](CommGroups& groups) -> absl::Status {
    const std::vector<int64_t> none(groups.size(), 0);
    SW_RETURN_IF_ERROR(groups.data->Broadcast(nullptr, 0, DType::kFloat32, 0));
    SW_RETURN_IF_ERROR(groups.data->AllReduce(nullptr, 0, DType::kFloat32, ReduceOp::kSum));
    SW_RETURN_IF_ERROR(groups.data->ReduceScatter(nullptr, none, DType::kFloat32, ReduceOp::kSum));
    SW_RETURN_IF_ERROR(groups.data->AllGather(nullptr, none, DType::kFloat32));
    SW_ASSIGN_OR_RETURN(const auto work, groups.data->AllReduceAsync(nullptr, 0, DType::kInt8, ReduceOp::kMax));
    return work->Wait();
  });
}

TEST_P(CommunicatorTest, MessagesOfAnyLength) {
  const size_t lengths[] = {0, 1, 247, 248, 249, 256, 1000, 400000};
  RunAll([&](CommGroups& groups) -> absl::Status {
    const auto message_of = [&](int32_t rank, size_t i) {
      return RandomBytes(lengths[(i + static_cast<size_t>(rank) * 3) % std::size(lengths)], 11 + rank);
    };
    for (size_t i = 0; i < std::size(lengths); ++i) {
      SW_ASSIGN_OR_RETURN(const auto messages, groups.control->AllGatherBytes(message_of(groups.rank(), i)));
      EXPECT_EQ(messages.size(), static_cast<size_t>(groups.size()));
      for (int32_t rank = 0; rank < groups.size(); ++rank) EXPECT_TRUE(messages[rank] == message_of(rank, i)) << i;
      const int32_t root = static_cast<int32_t>(i) % groups.size();
      SW_ASSIGN_OR_RETURN(const std::string sent, groups.control->BroadcastBytes(message_of(groups.rank(), i), root));
      EXPECT_TRUE(sent == message_of(root, i)) << i;
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, GroupsWorkSideBySideInTheirOwnThreads) {
  RunAll([](CommGroups& groups) -> absl::Status {
    absl::Status writer_status;
    std::thread writer([&] {
      for (int i = 0; i < 50 && writer_status.ok(); ++i) writer_status = groups.checkpoint->Barrier();
    });
    absl::Status status;
    for (int i = 0; i < 50 && status.ok(); ++i) {
      int32_t value = 1;
      status = groups.data->AllReduce(&value, 1, DType::kInt32, ReduceOp::kSum);
      EXPECT_TRUE(!status.ok() || value == groups.size());
    }
    writer.join();
    SW_RETURN_IF_ERROR(status);
    return writer_status;
  });
}

TEST_P(CommunicatorTest, CallsAndBytesAreCounted) {
  RunAll([](CommGroups& groups) -> absl::Status {
    Communicator& comm = *groups.data;
    const std::vector<int64_t> counts(groups.size(), 3);
    std::vector<float> all(3 * static_cast<size_t>(groups.size())), piece(3);
    SW_RETURN_IF_ERROR(comm.Barrier());
    SW_RETURN_IF_ERROR(comm.Broadcast(piece.data(), 3, DType::kFloat32, 0));
    SW_RETURN_IF_ERROR(comm.AllReduce(piece.data(), 3, DType::kFloat32, ReduceOp::kSum));
    SW_RETURN_IF_ERROR(comm.ReduceScatter(all.data(), counts, DType::kFloat32, ReduceOp::kSum));
    SW_RETURN_IF_ERROR(comm.AllGather(all.data(), counts, DType::kFloat32));
    SW_RETURN_IF_ERROR(comm.AllGatherBytes("12345").status());
    SW_RETURN_IF_ERROR(comm.BroadcastBytes("1234567", 0).status());
    const CommCounters counters = comm.counters();
    EXPECT_EQ(counters.barriers, 1);
    EXPECT_EQ(counters.broadcasts, 1);
    EXPECT_EQ(counters.all_reduces, 1);
    EXPECT_EQ(counters.reduce_scatters, 1);
    EXPECT_EQ(counters.all_gathers, 1);
    EXPECT_EQ(counters.messages, 2);
    EXPECT_EQ(counters.bytes, 24 + 2 * all.size() * sizeof(float) + 5 + (groups.rank() == 0 ? 7 : 0));
    EXPECT_EQ(groups.control->counters().barriers, 0);
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, ImpossibleCallsAreRefusedAndBreakTheGroup) {
  const std::vector<std::function<absl::Status(Communicator&)>> calls = {
      [](Communicator& comm) { return comm.Broadcast(nullptr, -1, DType::kFloat32, 0); },
      [](Communicator& comm) { return comm.Broadcast(nullptr, 0, DType::kFloat32, comm.size()); },
      [](Communicator& comm) { return comm.Broadcast(nullptr, 0, DType::kFloat32, -1); },
      [](Communicator& comm) { return comm.Broadcast(nullptr, 1, DType::kInvalid, 0); },
      [](Communicator& comm) { return comm.Broadcast(nullptr, INT64_MAX, DType::kFloat32, 0); },
      [](Communicator& comm) { return comm.AllReduce(nullptr, 1, DType::kFloat8E4M3, ReduceOp::kSum); },
      [](Communicator& comm) { return comm.AllReduce(nullptr, 1, DType::kComplex64, ReduceOp::kSum); },
      [](Communicator& comm) { return comm.AllReduce(nullptr, 1, DType::kBool, ReduceOp::kSum); },
      [](Communicator& comm) { return comm.AllReduceAsync(nullptr, -1, DType::kInt8, ReduceOp::kSum).status(); },
      [](Communicator& comm) { return comm.ReduceScatter(nullptr, {}, DType::kFloat32, ReduceOp::kSum); },
      [](Communicator& comm) {
        const std::vector<int64_t> counts(comm.size(), 1);
        return comm.ReduceScatterAsync(nullptr, counts, DType::kFloat8E4M3, ReduceOp::kSum).status();
      },
      [](Communicator& comm) {
        std::vector<int64_t> counts(comm.size(), 1);
        counts.back() = -1;
        return comm.AllGatherAsync(nullptr, counts, DType::kFloat32).status();
      },
      [](Communicator& comm) {
        const std::vector<int64_t> counts(comm.size() + 1, 0);
        return comm.AllGather(nullptr, counts, DType::kFloat32);
      },
      [](Communicator& comm) { return comm.BroadcastBytes("x", comm.size()).status(); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("call ", i));
    const auto statuses = Run(2, [&](CommGroups& groups) {
      const absl::Status first = calls[i](*groups.data);
      EXPECT_EQ(groups.data->Barrier(), first);
      return first;
    });
    EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kInvalidArgument)));
  }
}

TEST_P(CommunicatorTest, AbandonEndsPendingAndLaterCallsOfThatGroupAlone) {
  for (int32_t size = 2; size <= 4; ++size) {
    const absl::Status reason = absl::DataLossError("bad chunk");
    const auto statuses = Run(size, [&](CommGroups& groups) -> absl::Status {
      SW_RETURN_IF_ERROR(groups.data->Barrier());
      // A rank that leaves right after a collective may take it from those that are still in it: let all come out.
      SW_RETURN_IF_ERROR(groups.control->Barrier());
      absl::Status first;
      if (groups.rank() == 1) {
        groups.data->Abandon(reason);
        first = groups.data->Barrier();
        EXPECT_EQ(first, reason);
      } else {
        first = groups.data->Barrier();
        EXPECT_THAT(first, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1 failed: bad chunk")));
      }
      int32_t value = 0;
      EXPECT_EQ(groups.data->AllReduce(&value, 1, DType::kInt32, ReduceOp::kSum), first);
      EXPECT_EQ(groups.data->AllGatherBytes("x").status(), first);
      return groups.control->Barrier();
    });
    EXPECT_THAT(statuses, Each(IsOk()));
  }
}

TEST_P(CommunicatorTest, ARankThatReturnsAnErrorEndsAllGroupsOfTheOthers) {
  const auto statuses = Run(3, [](CommGroups& groups) -> absl::Status {
    if (groups.rank() == 2) return absl::NotFoundError("no data");
    for (Communicator* comm : {groups.data.get(), groups.control.get(), groups.checkpoint.get()}) {
      const auto message = comm->BroadcastBytes("x", 2);
      EXPECT_THAT(message, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 2 failed: no data")));
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses[2], StatusIs(absl::StatusCode::kNotFound));
}

// Rank 0 waits for rank 2, which is far away, while rank 1 fails.
TEST_P(CommunicatorTest, AFailureReachesThoseWhoWaitForSomebodyElse) {
  absl::Notification seen;
  const auto statuses = Run(3, [&](CommGroups& groups) -> absl::Status {
    SW_RETURN_IF_ERROR(groups.data->Barrier());
    SW_RETURN_IF_ERROR(groups.control->Barrier());  // all are out of the first one
    if (groups.rank() == 1) return absl::NotFoundError("no data");
    if (groups.rank() == 2) seen.WaitForNotification();
    const absl::Status status = groups.data->BroadcastBytes("x", 2).status();
    if (groups.rank() == 0) seen.Notify();
    return status;
  });
  for (int32_t rank : {0, 2}) {
    EXPECT_THAT(statuses[rank], StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1 failed: no data")));
  }
}

TEST_P(CommunicatorTest, PendingAsyncCallsEndWithTheirGroup) {
  const auto statuses = Run(2, [](CommGroups& groups) -> absl::Status {
    if (groups.rank() == 1) {
      SW_RETURN_IF_ERROR(groups.control->Barrier());
      groups.Abandon(absl::DataLossError("bad chunk"));
      return absl::OkStatus();
    }
    std::vector<float> data(300000);
    const std::vector<int64_t> counts = {0, 100000};
    std::vector<std::unique_ptr<Work>> works(3);
    SW_ASSIGN_OR_RETURN(works[0], groups.data->AllReduceAsync(&data[0], 100000, DType::kFloat32, ReduceOp::kSum));
    SW_ASSIGN_OR_RETURN(works[1], groups.data->AllGatherAsync(&data[100000], counts, DType::kFloat32));
    SW_ASSIGN_OR_RETURN(works[2],
                        groups.data->ReduceScatterAsync(&data[200000], counts, DType::kFloat32, ReduceOp::kSum));
    SW_RETURN_IF_ERROR(groups.control->Barrier());
    const absl::Status first = works[1]->Wait();
    EXPECT_EQ(works[2]->Wait(), first);
    EXPECT_EQ(works[0]->Wait(), first);
    return first;
  });
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1 failed: bad chunk")));
}

TEST_P(CommunicatorTest, AfterTheDeadlineTheMissingRankIsNamed) {
  absl::Notification ended;
  std::atomic<int> left = 2;
  const auto statuses = Run(
      3,
      [&](CommGroups& groups) -> absl::Status {
        SW_RETURN_IF_ERROR(groups.data->Barrier());
        if (groups.rank() == 2) {
          ended.WaitForNotification();
          return absl::OkStatus();
        }
        const absl::Status first = groups.data->Barrier();
        EXPECT_EQ(groups.data->Barrier(), first);
        if (--left == 0) ended.Notify();
        return first;
      },
      absl::Milliseconds(500));
  for (int32_t rank : {0, 1}) {
    EXPECT_THAT(statuses[rank],
                StatusIs(absl::StatusCode::kDeadlineExceeded, AllOf(HasSubstr("Barrier"), HasSubstr("rank 2"))));
  }
}

}  // namespace shardwright

#endif  // SHARDWRIGHT_TESTS_CONFORMANCE_COMM_COMMUNICATOR_CONFORMANCE_H_
