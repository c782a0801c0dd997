// Loads through an edited view: renamed, dropped, cast, added and derived tensors; strictness.
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/core/tensor/cast.h"
#include "shardwright/tests/testing/checkpoint_runs.h"
#include "shardwright/tests/testing/fault_storage.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::FaultStorage;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::Load;
using ::shardwright::testing::Loaded;
using ::shardwright::testing::LoadSetup;
using ::shardwright::testing::MadeTensor;
using ::shardwright::testing::Make;
using ::shardwright::testing::Meta;
using ::shardwright::testing::Save;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kRules[] = {"single_device", "ddp", "zero1", "zero3"};

// Values that are plain numbers, so that casts are meaningful.
MadeTensor Numbers(const TensorMeta& meta, int seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values(meta.elements());
  for (double& value : values) value = std::normal_distribution<double>()(random);
  MadeTensor made{meta, "", std::string(meta.bytes(), '\0')};
  EXPECT_THAT(CastElements(DType::kFloat64, {reinterpret_cast<const char*>(values.data()), values.size() * 8},
                           meta.dtype, absl::MakeSpan(made.bytes)),
              IsOk());
  return made;
}

MadeTensor CastTo(const MadeTensor& tensor, DType dtype) {
  MadeTensor cast = tensor;
  cast.meta.dtype = dtype;
  cast.bytes.assign(cast.meta.bytes(), '\0');
  EXPECT_THAT(CastElements(tensor.meta.dtype, tensor.bytes, dtype, absl::MakeSpan(cast.bytes)), IsOk());
  return cast;
}

// Loads with the edit under every rule and several worlds and windows; all must hold `wanted`.
void ExpectLoads(Storage& storage, const std::vector<MadeTensor>& wanted, const std::function<void(LoadView&)>& edit) {
  for (const char* rule : kRules) {
    for (const int32_t world : {1, 3}) {
      for (const uint64_t window : {uint64_t{1000}, uint64_t{8} << 20}) {
        for (const bool verify_first : {true, false}) {
          SCOPED_TRACE(absl::StrCat(rule, " ", world, " ", window, " ", verify_first));
          LoadSetup setup{
              .rule = *PlacementRules().Find(rule), .world_size = world, .window_bytes = window, .edit = edit};
          setup.options.verify_first = verify_first;
          const Loaded loaded = Load(storage, "c", wanted, setup);
          ASSERT_THAT(loaded.status(), IsOk());
          for (int32_t rank = 0; rank < world; ++rank) {
            EXPECT_THAT(loaded.states[rank]->Differences(wanted), IsEmpty());
            EXPECT_LE(loaded.budget_peaks[rank], loaded.totals[rank].transient_bytes);
            EXPECT_LE(loaded.reports[rank].transient_peak_bytes, loaded.totals[rank].transient_bytes);
          }
        }
      }
    }
  }
}

class LoadEditsTest : public ::testing::Test {
 protected:
  LoadEditsTest()
      : storage_(MakeMemoryStorage()),
        q_(Numbers(Meta("q", DType::kFloat32, {60, 130}), 1)),
        k_(Numbers(Meta("k", DType::kFloat32, {30, 130}), 2)),
        half_(Numbers(Meta("half", DType::kBFloat16, {77, 111}), 3)) {
    EXPECT_THAT(Save(*storage_, "c", {q_, k_, half_}, {.rule = &RowShardBox, .world_size = 4}), IsOk());
  }
  static MadeTensor Named(MadeTensor tensor, absl::string_view name) {
    tensor.meta.name = std::string(name);
    return tensor;
  }

  std::unique_ptr<Storage> storage_;
  MadeTensor q_, k_, half_;
};

TEST_F(LoadEditsTest, RenameAndDrop) {
  ExpectLoads(*storage_, {Named(q_, "query"), half_}, [](LoadView& view) {
    EXPECT_THAT(view.Rename("q", "query"), IsOk());
    EXPECT_THAT(view.Drop("k"), IsOk());
  });
}

TEST_F(LoadEditsTest, CastsEveryWay) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    SCOPED_TRACE(std::string(DTypeName(dtype)));
    ExpectLoads(*storage_, {CastTo(q_, dtype), k_, CastTo(half_, dtype)}, [&](LoadView& view) {
      EXPECT_THAT(view.Cast("q", dtype), IsOk());
      EXPECT_THAT(view.Cast("half", dtype), IsOk());
    });
  }
}

TEST_F(LoadEditsTest, AddedTensors) {
  const MadeTensor added = Numbers(Meta("added", DType::kFloat32, {50, 40}), 9);
  ExpectLoads(*storage_, {q_, k_, half_, CastTo(added, DType::kFloat16)}, [&](LoadView& view) {
    EXPECT_THAT(view.Add(added.meta, added.bytes), IsOk());
    EXPECT_THAT(view.Cast("added", DType::kFloat16), IsOk());
  });
}

absl::Status Concatenate(const std::vector<absl::Span<const char>>& inputs, absl::Span<char> out) {
  size_t at = 0;
  for (const absl::Span<const char>& input : inputs) {
    std::memcpy(out.data() + at, input.data(), input.size());
    at += input.size();
  }
  return at == out.size() ? absl::OkStatus() : absl::InvalidArgumentError("lengths do not add up");
}

TEST_F(LoadEditsTest, DerivedTensorsGetWholeInputs) {
  MadeTensor fused{Meta("qk", DType::kFloat32, {90, 130}), "", q_.bytes + k_.bytes};
  ExpectLoads(*storage_, {fused, half_}, [&](LoadView& view) {
    EXPECT_THAT(view.Derive(fused.meta, {"q", "k"}, &Concatenate), IsOk());
    EXPECT_THAT(view.Drop("q"), IsOk());
    EXPECT_THAT(view.Drop("k"), IsOk());
  });
}

TEST_F(LoadEditsTest, DerivedTensorsCanBeCastAndHaveNoInputs) {
  MadeTensor ones = Numbers(Meta("ones", DType::kFloat32, {9, 9}), 4);
  ExpectLoads(*storage_, {q_, k_, half_, CastTo(ones, DType::kFloat64)}, [&](LoadView& view) {
    EXPECT_THAT(view.Derive(ones.meta, {},
                            [&](const auto&, absl::Span<char> out) {
                              std::memcpy(out.data(), ones.bytes.data(), out.size());
                              return absl::OkStatus();
                            }),
                IsOk());
    EXPECT_THAT(view.Cast("ones", DType::kFloat64), IsOk());
  });
}

TEST_F(LoadEditsTest, AFailingDeriveIsNamedOnEveryRank) {
  LoadSetup setup{.rule = &RowShardBox, .world_size = 3};
  setup.edit = [](LoadView& view) {
    EXPECT_THAT(view.Derive(Meta("d", DType::kFloat32, {9}), {"q"},
                            [](const auto&, auto) { return absl::InternalError("singular matrix"); }),
                IsOk());
  };
  const MadeTensor d{Meta("d", DType::kFloat32, {9}), "", std::string(36, '\0')};
  const Loaded loaded = Load(*storage_, "c", {q_, k_, half_, d}, setup);
  EXPECT_THAT(loaded.statuses, Each(StatusIs(absl::StatusCode::kInternal,
                                             AllOf(HasSubstr("deriving \"d\""), HasSubstr("singular matrix")))));
  for (const auto& state : loaded.states) {
    EXPECT_EQ(state->AllBytes(), std::string(state->AllBytes().size(), testing::kPoison));
  }
}

TEST_F(LoadEditsTest, DamagedInputsOfDerivedTensorsAreFoundFirst) {
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage_, "c"));
  const ShardMeta& shard = manifest->Find("k")->shards[2];
  const std::string path = "c/" + manifest->files()[shard.file].path;
  ASSERT_THAT((*storage_->OpenWrite(path))->WriteAt(shard.offset_bytes, absl::string_view("??")), IsOk());
  LoadSetup setup{.rule = &RowShardBox, .world_size = 2};
  MadeTensor fused{Meta("qk", DType::kFloat32, {90, 130}), "", q_.bytes + k_.bytes};
  setup.edit = [&](LoadView& view) {
    EXPECT_THAT(view.Derive(fused.meta, {"q", "k"}, &Concatenate), IsOk());
    EXPECT_THAT(view.Drop("q"), IsOk());
    EXPECT_THAT(view.Drop("k"), IsOk());
  };
  const Loaded loaded = Load(*storage_, "c", {fused, half_}, setup);
  EXPECT_THAT(loaded.statuses,
              Each(StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("\"k\""), HasSubstr("\"qk\"")))));
  for (const auto& state : loaded.states) {
    EXPECT_EQ(state->AllBytes(), std::string(state->AllBytes().size(), testing::kPoison));
  }
}

TEST_F(LoadEditsTest, TiedCheckpointsAndModelsEitherWay) {
  MadeTensor tied{Meta("k2", DType::kFloat32, {30, 130}), "k", ""};
  ASSERT_THAT(Save(*storage_, "tied", {q_, k_, half_, tied}, {.world_size = 2}), IsOk());
  const MadeTensor untied = Named(k_, "k2");
  const Loaded into_untied = Load(*storage_, "tied", {q_, k_, half_, untied}, {.rule = &RowShardBox, .world_size = 3});
  ASSERT_THAT(into_untied.status(), IsOk());
  EXPECT_THAT(into_untied.states[2]->Differences({q_, k_, half_, untied}), IsEmpty());

  ASSERT_THAT(Save(*storage_, "untied", {q_, k_, half_, untied}, {.world_size = 2}), IsOk());
  const Loaded into_tied = Load(*storage_, "untied", {q_, k_, half_, tied}, {.rule = &RowShardBox, .world_size = 3});
  ASSERT_THAT(into_tied.status(), IsOk());
  EXPECT_THAT(into_tied.states[1]->Differences({q_, k_, half_, tied}), IsEmpty());
}

TEST_F(LoadEditsTest, MismatchesAreListedTogether) {
  MadeTensor wrong_shape = Numbers(Meta("q", DType::kFloat32, {1}), 1);
  MadeTensor missing = Numbers(Meta("m", DType::kFloat32, {1}), 1);
  const Loaded loaded = Load(*storage_, "c", {wrong_shape, missing, CastTo(half_, DType::kFloat32)});
  EXPECT_THAT(loaded.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("4 differences"), HasSubstr("missing: m"), HasSubstr("unexpected: k"),
                             HasSubstr("shape of q"), HasSubstr("dtype of half"))));
}

TEST_F(LoadEditsTest, ManyTinyTensorsAreReadTogether) {
  std::mt19937_64 random(1);
  std::vector<MadeTensor> tensors;
  for (int i = 0; i < 3000; ++i) tensors.push_back(Make(Meta(absl::StrCat("t", i), DType::kFloat32, {4}), random));
  ASSERT_THAT(Save(*storage_, "many", tensors), IsOk());
  const uint64_t before = storage_->counters().reads.load();
  LoadSetup setup;
  setup.options.verify_first = false;
  const Loaded loaded = Load(*storage_, "many", tensors, setup);
  ASSERT_THAT(loaded.status(), IsOk());
  EXPECT_LT(storage_->counters().reads.load() - before, 20u);
  EXPECT_THAT(loaded.states[0]->Differences(tensors), IsEmpty());
}

}  // namespace
}  // namespace shardwright
