// Partitions of random models for random numbers of ranks, assembled again.
#include "shardwright/core/format/deepspeed/zero_assembly.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "shardwright/core/format/opened_source.h"
#include "shardwright/core/storage/memory.h"
#include "tests/testing/status_matchers.h"

namespace shardwright::deepspeed {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kFloatBytes = 4;

// A model of parameters whose elements are numbered through.
struct Model {
  std::vector<std::vector<Parameter>> groups;
  std::vector<std::vector<std::vector<float>>> values;  // of each parameter of each group
};

Model MakeModel(std::mt19937& random) {
  Model model;
  float next = 1;
  for (size_t g = 0; g < 1 + random() % 3; ++g) {
    model.groups.emplace_back();
    model.values.emplace_back();
    for (size_t p = 0; p < 1 + random() % 4; ++p) {
      Shape shape(random() % 4);
      for (int64_t& dimension : shape) dimension = random() % 6;
      const int64_t elements = Box::Whole(shape).elements();
      model.groups.back().push_back({absl::StrCat("g", g, ".p", p), shape, elements});
      std::vector<float>& values = model.values.back().emplace_back(elements);
      for (float& value : values) value = next++;
    }
  }
  return model;
}

class ZeroAssemblyTest : public ::testing::Test {
 protected:
  ZeroAssemblyTest() : random_(seed_) {
    std::printf("seed %u\n", seed_);
    storage_ = MakeMemoryStorage();
  }

  // Writes floats behind all before them, and says where.
  Flat Store(const std::vector<float>& values) {
    const uint64_t offset = data_.size();
    const uint64_t bytes = values.size() * kFloatBytes;
    data_.resize(offset + bytes);
    if (bytes > 0) std::memcpy(&data_[offset], values.data(), bytes);
    const auto elements = static_cast<int64_t>(values.size());
    return {DType::kFloat32,
            {.box = Box::Whole({elements}), .bytes = {0, offset, bytes, bytes, nullptr}, .stride = {1}}};
  }

  // The parameters of all groups scattered over the ranks.
  std::vector<RankState> Scatter(const Model& model, int64_t count) {
    std::vector<RankState> ranks(count);
    for (int64_t r = 0; r < count; ++r) {
      ranks[r].stage = 3;
      ranks[r].partition_count = count;
      for (const auto& group : model.values) {
        std::vector<float> flat;
        for (const std::vector<float>& values : group) {
          const auto elements = static_cast<int64_t>(values.size());
          const int64_t per_rank = (elements + count - 1) / count;
          for (int64_t i = r * per_rank; i < (r + 1) * per_rank; ++i) flat.push_back(i < elements ? values[i] : -1);
        }
        ranks[r].master.push_back(Store(flat));
        ranks[r].slots.push_back({{"exp_avg", Store(flat)}});
      }
    }
    return ranks;
  }

  // Each group in one piece, padded and cut; the fp32 tail padding stripped as the writer does.
  std::vector<RankState> Partition(const Model& model, int64_t count) {
    std::vector<RankState> ranks(count);
    for (const auto& group : model.values) {
      std::vector<float> flat;
      for (const std::vector<float>& values : group) flat.insert(flat.end(), values.begin(), values.end());
      const auto used = static_cast<int64_t>(flat.size());
      flat.resize((used + 2 * count - 1) / (2 * count) * (2 * count), -1);
      const auto per_rank = static_cast<int64_t>(flat.size()) / count;
      for (int64_t r = 0; r < count; ++r) {
        ranks[r].stage = 2;
        ranks[r].partition_count = count;
        const auto begin = flat.begin() + r * per_rank;
        const int64_t kept = std::clamp<int64_t>(used - r * per_rank, 0, per_rank);
        ranks[r].master.push_back(Store({begin, begin + kept}));
        ranks[r].slots.push_back({{"exp_avg", Store({begin, begin + per_rank})}});
      }
    }
    return ranks;
  }

  void Check(const Model& model, CheckpointBuilder builder) {
    SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened, std::move(builder).Finish("test"));
    const OpenedSource source(*storage_, opened);
    for (size_t g = 0; g < model.groups.size(); ++g) {
      for (size_t p = 0; p < model.groups[g].size(); ++p) {
        const Parameter& parameter = model.groups[g][p];
        for (const std::string& name :
             {parameter.name, absl::StrCat("optimizer.0.state.", parameter.name, ".exp_avg")}) {
          std::vector<float> read(parameter.elements);
          const absl::Span<char> bytes(reinterpret_cast<char*>(read.data()), read.size() * kFloatBytes);
          ASSERT_THAT(source.Read(name, Box::Whole(parameter.shape), bytes), IsOk());
          EXPECT_EQ(read, model.values[g][p]) << name << ShapeToString(parameter.shape);
        }
      }
    }
  }

  // A builder over what was stored.
  CheckpointBuilder MakeBuilder() {
    EXPECT_THAT(RemoveTree(*storage_, "folder"), IsOk());
    EXPECT_THAT(storage_->CreateDirectories("folder"), IsOk());
    EXPECT_THAT(WriteWholeFile(*storage_, "folder/data", data_), IsOk());
    CheckpointBuilder builder(*storage_, "folder");
    EXPECT_THAT(builder.Open("data"), IsOk());
    return builder;
  }

  const uint32_t seed_ = static_cast<uint32_t>(std::random_device()());
  std::mt19937 random_;
  std::string data_;
  std::unique_ptr<Storage> storage_;
};

TEST_F(ZeroAssemblyTest, ScatteredParametersComeTogether) {
  for (int round = 0; round < 60; ++round) {
    data_.clear();
    const Model model = MakeModel(random_);
    const std::vector<RankState> ranks = Scatter(model, 1 + random_() % 9);
    SCOPED_TRACE(absl::StrCat(ranks.size(), " ranks"));
    CheckpointBuilder builder = MakeBuilder();
    ASSERT_THAT(AddScattered(builder, ranks, model.groups), IsOk());
    Check(model, std::move(builder));
  }
}

TEST_F(ZeroAssemblyTest, PartitionedGroupsComeApart) {
  for (int round = 0; round < 60; ++round) {
    data_.clear();
    const Model model = MakeModel(random_);
    const std::vector<RankState> ranks = Partition(model, 1 + random_() % 9);
    SCOPED_TRACE(absl::StrCat(ranks.size(), " ranks"));
    CheckpointBuilder builder = MakeBuilder();
    ASSERT_THAT(AddPartitioned(builder, ranks, model.groups), IsOk());
    Check(model, std::move(builder));
  }
}

TEST_F(ZeroAssemblyTest, RanksThatDoNotAgreeAreRefused) {
  Model model;
  model.groups = {{{"w", {3, 4}, 12}}};
  model.values = {{std::vector<float>(12, 1.0f)}};
  const auto refusal = [&](const std::function<void(std::vector<RankState>&)>& spoil) {
    std::vector<RankState> ranks = Scatter(model, 2);
    spoil(ranks);
    CheckpointBuilder builder = MakeBuilder();
    return AddScattered(builder, ranks, model.groups);
  };
  const auto is_loss = [](const char* message) { return StatusIs(absl::StatusCode::kDataLoss, HasSubstr(message)); };
  EXPECT_THAT(refusal([](auto& ranks) {}), IsOk());
  EXPECT_THAT(refusal([](auto& ranks) { ranks.pop_back(); }), is_loss("one of 2, there are 1"));
  EXPECT_THAT(refusal([](auto& ranks) { ranks[1].stage = 2; }), is_loss("another stage"));
  EXPECT_THAT(refusal([](auto& ranks) { ranks[1].version = "0.1"; }), is_loss("version"));
  EXPECT_THAT(refusal([](auto& ranks) { ranks[1].master.clear(); }), is_loss("0 groups, want 1"));
  EXPECT_THAT(refusal([](auto& ranks) { ranks[1].master[0].piece.box.size[0] = 5; }), is_loss("5 elements, want 6"));
  EXPECT_THAT(refusal([](auto& ranks) { ranks[1].slots[0].clear(); }), is_loss("not there on every rank"));
  EXPECT_THAT(refusal([](auto& ranks) { ranks[1].master[0].dtype = DType::kFloat16; }), is_loss("of one type"));
}

}  // namespace
}  // namespace shardwright::deepspeed
