// Every fixture of another system's library reads to just the tensors that the library itself has in it, and every bad
// one is treated as it must be.
#include "shardwright/core/format/formats.h"

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "shardwright/core/format/opened_source.h"
#include "shardwright/core/format/torch/dtypes.h"
#include "shardwright/core/storage/posix.h"
#include "tests/core/format/fixtures.h"
#include "tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::ExpectedTensor;
using ::shardwright::testing::FindFixture;
using ::shardwright::testing::FixtureItem;
using ::shardwright::testing::FixturePath;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::ReadAllTensors;
using ::shardwright::testing::ReadFixtures;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::TensorFacts;
using ::testing::AnyOf;
using ::testing::HasSubstr;

Storage& TestStorage() {
  static Storage* const kStorage = MakePosixStorage().release();
  return *kStorage;
}

using Tensors = std::map<std::string, TensorFacts>;
using Namer = std::function<std::string(const ExpectedTensor&)>;

std::string Joined(const ExpectedTensor& tensor) {
  return tensor.path.empty() ? "tensor" : absl::StrJoin(tensor.path, ".");
}

Tensors Expected(const std::vector<ExpectedTensor>& tensors, const Namer& name = &Joined) {
  Tensors expected;
  for (const ExpectedTensor& tensor : tensors) {
    if (tensor.sha256.empty()) continue;
    const auto dtype = torch_format::DTypeOfTorch(tensor.dtype);
    EXPECT_TRUE(dtype.has_value()) << tensor.dtype;
    expected[name(tensor)] = {dtype.value_or(DType::kInvalid), tensor.shape, tensor.sha256};
  }
  return expected;
}

// What is in `expected` and is not the same in `actual`.
std::string Difference(const Tensors& expected, const Tensors& actual) {
  std::string text;
  for (const auto& [name, facts] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) {
      absl::StrAppend(&text, "missing ", name, "\n");
    } else if (!(found->second == facts)) {
      absl::StrAppend(&text, "differs: ", name, " want ", ::testing::PrintToString(facts), " got ",
                      ::testing::PrintToString(found->second), "\n");
    }
  }
  return text;
}

std::string Unexpected(const Tensors& expected, const Tensors& actual) {
  std::string text;
  for (const auto& [name, facts] : actual) {
    if (expected.count(name) == 0) absl::StrAppend(&text, name, " ");
  }
  return text;
}

// Names of optimizer state by the number of the parameter among the weights: {..., "state", "0", "exp_avg"}.
Namer WithParameterNames(const FixtureItem& item, const std::string& weights_key, bool keep_key) {
  std::vector<std::string> weights;
  for (const ExpectedTensor& tensor : item.tensors) {
    if (tensor.path[0] != weights_key || tensor.dtype == "int64") continue;
    weights.push_back(keep_key ? Joined(tensor) : tensor.path[1]);
  }
  return [=](const ExpectedTensor& tensor) -> std::string {
    const size_t size = tensor.path.size();
    if (size >= 3 && tensor.path[size - 3] == "state") {
      return absl::StrCat("optimizer.0.state.", weights.at(std::stoul(tensor.path[size - 2])), ".", tensor.path.back());
    }
    if (tensor.path[0] == weights_key && !keep_key) return tensor.path[1];
    return Joined(tensor);
  };
}

class GroupTest : public ::testing::TestWithParam<const char*> {};

// Groups whose tensors have the names of their paths.
TEST_P(GroupTest, EveryFileReadsToTheExpectedTensors) {
  for (const FixtureItem& item : ReadFixtures(GetParam())) {
    SCOPED_TRACE(item.file);
    if (item.must != "load") continue;
    if (absl::StrContains(item.file, "training") || item.file == "nested.pt" || item.file == "legacy_tar.pt") continue;
    SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                            OpenAnyCheckpoint(TestStorage(), FixturePath(GetParam(), item.file)));
    const Tensors expected = Expected(item.tensors);
    const Tensors actual = ReadAllTensors(TestStorage(), opened);
    EXPECT_EQ(Difference(expected, actual), "");
    // The account of this one leaves out the module's batch normalisation.
    if (item.file != "legacy_module.pt") {
      EXPECT_EQ(Unexpected(expected, actual), "");
    }
    EXPECT_THAT(VerifyForeignChecksums(TestStorage(), opened), IsOk());
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GroupTest,
                         ::testing::Values("torch_zip", "torch_legacy", "safetensors", "dcp_async_w2",
                                           "dcp_fsdp2_bf16_w2", "dcp_fsdp2_w2", "dcp_fsdp2_w4",
                                           "dcp_hf_consolidated_w2", "dcp_hf_w2", "dcp_per_item_w2",
                                           "dcp_placements_w2", "dcp_plain_w1", "dcp_safetensors_w2",
                                           "dcp_sharded_tensor_w4", "dcp_threads_w2", "dcp_zstd_w2"),
                         [](const auto& info) { return info.param; });

TEST(TorchTest, OptimizerStateIsNamedAfterItsParameters) {
  for (const auto& [group, file] :
       {std::pair("torch_zip", "training_safe.pt"), {"torch_legacy", "legacy_training.pt"}}) {
    const FixtureItem item = FindFixture(group, file);
    SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened, OpenAnyCheckpoint(TestStorage(), FixturePath(group, file)));
    const Tensors expected = Expected(item.tensors, WithParameterNames(item, "model", /*keep_key=*/true));
    const Tensors actual = ReadAllTensors(TestStorage(), opened);
    EXPECT_EQ(Difference(expected, actual), "") << file;
    EXPECT_EQ(Unexpected(expected, actual), "") << file;
    const TensorEntry* moment = opened.manifest->Find("optimizer.0.state.model.1.weight.exp_avg_sq");
    ASSERT_NE(moment, nullptr);
    EXPECT_EQ(moment->meta.role, Role::kOptimizer);
    EXPECT_EQ(moment->meta.optimizer, (OptimizerField{0, "model.1.weight", "exp_avg_sq"}));
    EXPECT_EQ(opened.manifest->Find("rng")->meta.role, Role::kState);
    EXPECT_EQ(opened.manifest->data().extras.at("rng"), Value(TensorReference{"rng"}));
  }
}

TEST(TorchTest, NestedTensorsStayOpaque) {
  SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                          OpenAnyCheckpoint(TestStorage(), FixturePath("torch_zip", "nested.pt")));
  EXPECT_NE(opened.manifest->Find("w"), nullptr);
  EXPECT_EQ(opened.manifest->Find("n"), nullptr);
}

TEST(TorchTest, TiedTensorsAreStoredOnce) {
  SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                          OpenAnyCheckpoint(TestStorage(), FixturePath("torch_zip", "views.pt")));
  EXPECT_EQ(opened.manifest->Find("tied_b")->alias_of, "tied_a");
  EXPECT_FALSE(opened.manifest->Find("slice_of_big")->computed);
  EXPECT_TRUE(opened.manifest->Find("tied_T")->computed);
  EXPECT_TRUE(opened.manifest->Find("conj")->computed);
}

TEST(TorchTest, UnknownClassesAreKeptByName) {
  SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                          OpenAnyCheckpoint(TestStorage(), FixturePath("torch_zip", "objects.pt")));
  EXPECT_THAT(opened.notes, ::testing::Contains("class not run: mycfg.Config"));
  const Value& args = opened.manifest->data().extras.at("args");
  const auto* map = args.get_if<Value::Map>();
  ASSERT_NE(map, nullptr);
  EXPECT_EQ(map->at("__class__"), Value(OpaqueObject{"argparse.Namespace"}));
}

TEST(TorchTest, ScriptsAndTarsAreNamed) {
  EXPECT_THAT(OpenAnyCheckpoint(TestStorage(), FixturePath("torch_zip", "torchscript.pt")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("TorchScript")));
  EXPECT_THAT(OpenAnyCheckpoint(TestStorage(), FixturePath("torch_legacy", "legacy_tar.pt")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("tar")));
}

TEST(LightningTest, EveryFileReadsToTheExpectedTensors) {
  for (const FixtureItem& item : ReadFixtures("lightning")) {
    SCOPED_TRACE(item.file);
    SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                            OpenAnyCheckpoint(TestStorage(), FixturePath("lightning", item.file)));
    const bool fabric = item.file == "fabric.ckpt";
    EXPECT_EQ(opened.format, fabric ? "torch_zip" : "lightning");
    const Tensors expected = Expected(item.tensors, WithParameterNames(item, fabric ? "model" : "state_dict", fabric));
    const Tensors actual = ReadAllTensors(TestStorage(), opened);
    EXPECT_EQ(Difference(expected, actual), "");
    EXPECT_EQ(Unexpected(expected, actual), "");
  }
}

TEST(LightningTest, StateOfTheRunIsNotOfTheModel) {
  SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                          OpenAnyCheckpoint(TestStorage(), FixturePath("lightning", "full.ckpt")));
  EXPECT_EQ(opened.manifest->Find("my_extra.t")->meta.role, Role::kState);
  EXPECT_EQ(opened.manifest->Find("net.0.weight")->meta.role, Role::kParameter);
  EXPECT_EQ(opened.manifest->Find("seen")->meta.role, Role::kBuffer);
  EXPECT_GT(opened.manifest->data().progress.step, 0);
  EXPECT_EQ(opened.manifest->data().extras.count("hyper_parameters"), 1u);
  EXPECT_EQ(opened.manifest->data().extras.count("state_dict"), 0u);
}

TEST(LightningTest, TheDistributedFolder) {
  const FixtureItem item = FindFixture("lightning_dcp_w2", "epoch.ckpt");
  SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                          OpenAnyCheckpoint(TestStorage(), FixturePath("lightning_dcp_w2", "epoch.ckpt")));
  EXPECT_EQ(opened.format, "lightning_distributed");
  const Tensors actual = ReadAllTensors(TestStorage(), opened);
  const Tensors expected = Expected(item.tensors, [](const ExpectedTensor& tensor) {
    return absl::StartsWith(tensor.path[0], "optim.") ? "optimizer.0.state." + tensor.path[0].substr(6)
                                                      : tensor.path[0];
  });
  EXPECT_EQ(Difference(expected, actual), "");
  for (const auto& [name, facts] : actual) {
    if (expected.count(name) == 0) {
      EXPECT_TRUE(absl::EndsWith(name, ".step")) << name;
    }
  }
  EXPECT_EQ(opened.manifest->data().extras.count("loops"), 1u);
}

TEST(DcpTest, OptimizerStateKnowsItsParameters) {
  SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                          OpenAnyCheckpoint(TestStorage(), FixturePath("dcp_fsdp2_w2", "ckpt")));
  const TensorEntry* moment = opened.manifest->Find("optimizer.state.b0.fc.weight.exp_avg");
  ASSERT_NE(moment, nullptr);
  EXPECT_EQ(moment->meta.optimizer, (OptimizerField{0, "model.b0.fc.weight", "exp_avg"}));
  EXPECT_EQ(moment->shards.size(), 2u);
  EXPECT_EQ(opened.manifest->Find("rng")->meta.role, Role::kState);
  EXPECT_EQ(opened.manifest->Find("model.count")->meta.role, Role::kBuffer);
  EXPECT_EQ(opened.manifest->data().extras.count("optimizer"), 1u);
}

Tensors DeepSpeedExpected(const FixtureItem& item) {
  Tensors expected = Expected(item.tensors);
  expected.merge(Expected(item.optimizer, [](const ExpectedTensor& tensor) {
    const size_t slash = tensor.path[0].find('/');
    return absl::StrCat("optimizer.0.state.", tensor.path[0].substr(slash + 1), ".", tensor.path[0].substr(0, slash));
  }));
  return expected;
}

TEST(DeepSpeedTest, EveryStageReadsToTheExpectedTensors) {
  for (const char* group : {"deepspeed_z0_bf16_w2", "deepspeed_z1_fp16_w2", "deepspeed_z1_fp32_w2",
                            "deepspeed_z2_bf16_w2", "deepspeed_z3_bf16_w2"}) {
    SCOPED_TRACE(group);
    SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                            OpenAnyCheckpoint(TestStorage(), FixturePath(group, "ckpt")));
    EXPECT_EQ(opened.format, "deepspeed");
    const Tensors expected = DeepSpeedExpected(FindFixture(group, "ckpt"));
    const Tensors actual = ReadAllTensors(TestStorage(), opened);
    EXPECT_EQ(Difference(expected, actual), "");
    for (const auto& [name, facts] : actual) {
      // Each parameter's counter; and in stage 1 the frozen parameter that the other system's tool forgets.
      const bool known = expected.count(name) > 0 || absl::EndsWith(name, ".step") || name == "frozen" ||
                         absl::StartsWith(name, "optimizer.");
      EXPECT_TRUE(known) << name;
    }
    EXPECT_EQ(opened.manifest->Find("head.weight")->alias_of, "emb.weight");
    EXPECT_EQ(opened.manifest->Find("steps")->meta.role, Role::kBuffer);
    EXPECT_EQ(opened.manifest->data().progress.step, 2);
    EXPECT_THAT(VerifyForeignChecksums(TestStorage(), opened), IsOk());
  }
}

TEST(DeepSpeedTest, TheTagsOwnFolderAndANamedTagRead) {
  EXPECT_THAT(OpenAnyCheckpoint(TestStorage(), FixturePath("deepspeed_z3_bf16_w2", "ckpt/global_step2")), IsOk());
  EXPECT_THAT(OpenAnyCheckpoint(TestStorage(), FixturePath("deepspeed_z3_bf16_w2", "ckpt"), {.tag = "global_step2"}),
              IsOk());
  EXPECT_THAT(OpenAnyCheckpoint(TestStorage(), FixturePath("deepspeed_z3_bf16_w2", "ckpt"), {.tag = "global_step9"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("global_step9")));
  EXPECT_THAT(OpenAnyCheckpoint(TestStorage(), FixturePath("deepspeed_z3_bf16_w2", "ckpt"), {.tag = "../x"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tag")));
}

TEST(DeepSpeedTest, GroupsNameTheirParameters) {
  SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                          OpenAnyCheckpoint(TestStorage(), FixturePath("deepspeed_z3_bf16_w2", "ckpt")));
  const auto& optimizer = *opened.manifest->data().extras.at("optimizer").get_if<Value::Map>();
  const auto& groups = *optimizer.at("param_groups").get_if<Value::List>();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].get_if<Value::Map>()->at("params"), Value(Value::List{"emb.weight", "fc1.weight", "fc2.weight"}));
}

TEST(DeepSpeedTest, UniversalCheckpointsReadToTheExpectedTensors) {
  for (const char* group : {"deepspeed_z2_bf16_w2", "deepspeed_z3_bf16_w2"}) {
    SCOPED_TRACE(group);
    SW_ASSERT_OK_AND_ASSIGN(const OpenedCheckpoint opened,
                            OpenAnyCheckpoint(TestStorage(), FixturePath(group, "universal")));
    EXPECT_EQ(opened.format, "deepspeed_universal");
    Tensors expected = Expected(FindFixture(group, "universal").tensors, [](const ExpectedTensor& tensor) {
      const size_t slash = tensor.path[0].find('/');
      const std::string name = tensor.path[0].substr(0, slash);
      const std::string slot = tensor.path[0].substr(slash + 1);
      return slot == "fp32" ? name : absl::StrCat("optimizer.0.state.", name, ".", slot);
    });
    const Tensors actual = ReadAllTensors(TestStorage(), opened);
    // Stage 3 leaves them flat; the model file has the shapes.
    for (auto& [name, facts] : expected) {
      const auto found = actual.find(name);
      if (found != actual.end() && facts.shape.size() == 1) facts.shape = found->second.shape;
    }
    EXPECT_EQ(Difference(expected, actual), "");
    EXPECT_EQ(opened.manifest->Find("emb.weight")->meta.shape, (Shape{11, 6}));
  }
}

TEST(PerRankTest, PartsOfDistributedTensorsReadToTheExpectedTensors) {
  const FixtureItem item = FindFixture("torch_dtensor_w2", ".");
  SW_ASSERT_OK_AND_ASSIGN(
      const OpenedCheckpoint opened,
      OpenAnyCheckpoint(TestStorage(), FixturePath("torch_dtensor_w2", "model_world_size_2_rank_0.pt")));
  EXPECT_EQ(opened.format, "per_rank");
  const Tensors expected = Expected(item.tensors);
  const Tensors actual = ReadAllTensors(TestStorage(), opened);
  EXPECT_EQ(Difference(expected, actual), "");
  EXPECT_EQ(Unexpected(expected, actual), "");

  SW_ASSERT_OK_AND_ASSIGN(
      const OpenedCheckpoint sharded,
      OpenAnyCheckpoint(TestStorage(), FixturePath("torch_dtensor_w2", "sharded_tensor_rank_1.pt")));
  const Tensors whole = ReadAllTensors(TestStorage(), sharded);
  ASSERT_EQ(whole.count("w"), 1u);
  EXPECT_EQ(whole.at("w"),
            (TensorFacts{DType::kFloat32, {7, 2}, "d7d236432a55e4523a472f77a879502798b1d71b20140d575fc73f095050574d"}));
  EXPECT_THAT(OpenAnyCheckpoint(TestStorage(), FixturePath("torch_dtensor_w2")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 saves")));
}

// Opens and reads all; the first error.
absl::Status OpenAndRead(const std::string& path) {
  SW_ASSIGN_OR_RETURN(const OpenedCheckpoint opened, OpenAnyCheckpoint(TestStorage(), path));
  const OpenedSource source(TestStorage(), opened);
  for (const TensorEntry& entry : opened.manifest->tensors()) {
    if (entry.meta.bytes() > 1 << 20) continue;
    std::string bytes(static_cast<size_t>(entry.meta.bytes()), '\0');
    SW_RETURN_IF_ERROR(source.Read(entry.meta.name, Box::Whole(entry.meta.shape), absl::MakeSpan(bytes)));
  }
  return VerifyForeignChecksums(TestStorage(), opened);
}

auto IsRefusal() {
  return AnyOf(StatusIs(absl::StatusCode::kDataLoss), StatusIs(absl::StatusCode::kUnimplemented),
               StatusIs(absl::StatusCode::kInvalidArgument), StatusIs(absl::StatusCode::kResourceExhausted),
               StatusIs(absl::StatusCode::kNotFound));
}

TEST(BadFilesTest, EveryBadTorchFileIsTreatedAsItMust) {
  for (const FixtureItem& item : ReadFixtures("bad_torch")) {
    SCOPED_TRACE(item.file);
    const absl::Status status = OpenAndRead(FixturePath("bad_torch", item.file));
    if (item.must == "refuse") {
      EXPECT_THAT(status, IsRefusal());
    }
    if (item.must == "load-lazily") {
      EXPECT_THAT(status, IsOk());
    }
    // The rest may do either: having come here, and not out of memory or stack, is what they must.
  }
}

TEST(BadFilesTest, WhatWouldActIsNamed) {
  for (const auto& [file, name] : {std::pair("exec_os_system.pt", "os.system"),
                                   {"exec_posix_system.pt", "posix.system"},
                                   {"exec_stack_global.pt", "system"},
                                   {"exec_eval.pt", "builtins.eval"},
                                   {"exec_getattr.pt", "builtins.getattr"}}) {
    EXPECT_THAT(OpenAndRead(FixturePath("bad_torch", file)),
                StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr(name), HasSubstr("Nothing was run"))))
        << file;
  }
}

TEST(BadFilesTest, EveryBadFolderIsTreatedAsItMust) {
  for (const FixtureItem& item : ReadFixtures("bad_dirs")) {
    SCOPED_TRACE(item.file);
    const absl::Status status = OpenAndRead(FixturePath("bad_dirs", item.file));
    if (item.must == "refuse") {
      EXPECT_THAT(status, IsRefusal());
    }
    if (item.must == "load") {
      EXPECT_THAT(status, IsOk());
    }
  }
  EXPECT_THAT(OpenAndRead(FixturePath("bad_dirs", "dcp_unknown_transform")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("acme.secret/9")));
}

TEST(BadFilesTest, EveryBadSafetensorsFileIsTreatedAsItMust) {
  for (const FixtureItem& item : ReadFixtures("bad_safetensors")) {
    SCOPED_TRACE(item.file);
    const absl::Status status = OpenAndRead(absl::StrCat("tests/core/format/testdata/hand_made/", item.file));
    if (item.must == "refuse") {
      EXPECT_THAT(status, IsRefusal());
    }
    if (item.must == "load") {
      EXPECT_THAT(status, IsOk());
    }
  }
}

TEST(BadFilesTest, EveryBadIndexIsTreatedAsItMust) {
  for (const FixtureItem& item : ReadFixtures("safetensors")) {
    if (!absl::StartsWith(item.file, "bad_index")) continue;
    SCOPED_TRACE(item.file);
    const absl::StatusOr<OpenedCheckpoint> opened =
        OpenAnyCheckpoint(TestStorage(), FixturePath("safetensors", item.file));
    if (item.must == "refuse") {
      EXPECT_THAT(opened, IsRefusal());
    } else {
      ASSERT_THAT(opened, IsOk());
      EXPECT_FALSE(opened->notes.empty());
    }
  }
}

TEST(FormatsTest, PathsThatAreNoCheckpointSayWhatTheyAre) {
  EXPECT_THAT(OpenAnyCheckpoint(TestStorage(), FixturePath("bad_torch", "lfs_pointer.pt")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("git lfs pull")));
  EXPECT_THAT(OpenAnyCheckpoint(TestStorage(), FixturePath("nowhere")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(OpenAnyCheckpoint(TestStorage(), FixturePath("bad_torch")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("known formats: native, dcp")));
}

}  // namespace
}  // namespace shardwright
