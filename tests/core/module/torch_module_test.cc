#include "shardwright/core/module/torch_module.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/module/torch_device.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Part : torch::nn::Module {
  Part() {
    weight = register_parameter("weight", at::zeros({2, 3}));
    register_buffer("count", at::zeros({}, at::kLong));
  }
  at::Tensor weight;
};

std::vector<std::string> NamesOf(const std::vector<NamedTorchTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTorchTensor& tensor : tensors) names.push_back(tensor.meta.name);
  return names;
}

TEST(NamedTensorsTest, ListsParametersThenBuffersInOrderOfRegistration) {
  torch::nn::Module root;  // on the stack: torch's own walk would refuse it
  root.register_parameter("z", at::zeros({1}));
  root.register_module("part", std::make_shared<Part>());
  root.register_parameter("a", at::zeros({1}), /*requires_grad=*/false);
  const auto tensors = NamedTensors(root);
  EXPECT_THAT(NamesOf(tensors), ElementsAre("z", "a", "part.weight", "part.count"));
  EXPECT_TRUE(tensors[0].meta.trainable);
  EXPECT_FALSE(tensors[1].meta.trainable);
  EXPECT_THAT(tensors[2].meta.shape, ElementsAre(2, 3));
  EXPECT_EQ(tensors[2].meta.dtype, DType::kFloat32);
  EXPECT_EQ(tensors[3].meta.role, Role::kBuffer);
  EXPECT_EQ(tensors[3].meta.dtype, DType::kInt64);
}

TEST(NamedTensorsTest, TiedParametersAreAliasesOfTheFirstName) {
  torch::nn::Module root;
  auto part = root.register_module("part", std::make_shared<Part>());
  root.register_module("again", part);
  const at::Tensor tied = root.register_parameter("head", part->weight);
  const auto tensors = NamedTensors(root);
  ASSERT_THAT(NamesOf(tensors), ElementsAre("head", "part.weight", "again.weight", "part.count", "again.count"));
  EXPECT_EQ(tensors[0].alias_of, "");
  EXPECT_EQ(tensors[1].alias_of, "head");
  EXPECT_EQ(tensors[2].alias_of, "head");
  EXPECT_EQ(tensors[4].alias_of, "part.count");
}

TEST(NamedTensorsTest, EmptyTensorsAndViewsAreNotTied) {
  torch::nn::Module root;
  const at::Tensor base = at::zeros({4, 2});
  root.register_parameter("empty1", at::empty({0}));
  root.register_parameter("empty2", at::empty({0}));
  root.register_buffer("base", base);
  root.register_buffer("view", base.view({4, 2}));  // same address, another tensor
  for (const NamedTorchTensor& tensor : NamedTensors(root)) EXPECT_EQ(tensor.alias_of, "") << tensor.meta.name;
}

TEST(DTypeTest, RoundTripsThroughTorch) {
  for (int number = 1; IsKnownDType(number); ++number) {
    const DType dtype = static_cast<DType>(number);
    const at::ScalarType type = ToScalarType(dtype);
    EXPECT_EQ(ToDType(type), dtype) << DTypeName(dtype);
    EXPECT_EQ(c10::elementSize(type), static_cast<size_t>(ItemSize(dtype))) << DTypeName(dtype);
  }
  EXPECT_EQ(ToDType(at::ScalarType::ComplexDouble), DType::kInvalid);
  EXPECT_EQ(ToScalarType(DType::kInvalid), at::ScalarType::Undefined);
}

TEST(ToLocalTensorTest, PointsIntoTheTensorAndIsNullForNothing) {
  at::Tensor tensor = at::zeros({3, 2});
  const TensorMeta meta{.name = "t", .dtype = DType::kFloat32, .shape = {6, 2}};
  const LocalTensor rows = ToLocalTensor(meta, Box::Rows(meta.shape, 3, 6), tensor);
  EXPECT_EQ(rows.data, static_cast<char*>(tensor.data_ptr()));
  EXPECT_EQ(rows.bytes(), 24);
  EXPECT_EQ(ToLocalTensor(meta, Box::Rows(meta.shape, 6, 6), at::empty({0, 2})).data, nullptr);
}

TEST(ToLocalTensorTest, SaysWhoseMemoryItIs) {
  const TensorMeta meta{.name = "t", .dtype = DType::kFloat32, .shape = {2}};
  EXPECT_EQ(ToLocalTensor(meta, Box::Whole(meta.shape), at::zeros({2})).device, Device{});
}

TEST(TorchDeviceTest, ConvertsBothWays) {
  for (const Device device : {Device{}, Device::Cuda(0), Device::Cuda(7)}) {
    EXPECT_EQ(ToDevice(ToTorchDevice(device)), device);
  }
  EXPECT_EQ(ToTorchDevice(Device::Cuda(7)).str(), "cuda:7");
}

TEST(TorchDeviceTest, TheCpuIsAlwaysThere) {
  EXPECT_THAT(UseDevice({}), IsOk());
  EXPECT_THAT(CallTorch([] { SynchronizeDevice({}); }), IsOk());
}

TEST(TorchDeviceTest, AGpuThatIsNotThereIsRefused) {
  EXPECT_THAT(UseDevice(Device::Cuda(100)), Not(IsOk()));
}

TEST(MoveToDeviceTest, WhatIsThereStays) {
  torch::nn::Module root;
  const at::Tensor weight = root.register_parameter("weight", at::ones({3}));
  const at::Tensor count = root.register_buffer("count", at::zeros({}));
  const void* const address = weight.const_data_ptr();
  MoveToDevice(root, {});
  EXPECT_EQ(weight.const_data_ptr(), address);
  EXPECT_TRUE(root.parameters()[0].is_same(weight));
}

TEST(MoveToDeviceTest, NothingIsLostOnTheWayToADeviceThatIsNotThere) {
  torch::nn::Module root;
  const at::Tensor weight = root.register_parameter("weight", at::ones({3}));
  EXPECT_THAT(CallTorch([&] { MoveToDevice(root, Device::Cuda(100)); }), Not(IsOk()));
  EXPECT_TRUE(weight.is_cpu());
  EXPECT_EQ(weight.sum().item<float>(), 3);
}

TEST(CallTorchTest, PassesResultsOn) {
  EXPECT_THAT(CallTorch([] {}), IsOk());
  EXPECT_THAT(CallTorch([] { return 3; }), IsOkAndHolds(3));
  EXPECT_THAT(CallTorch([] { return absl::NotFoundError("x"); }), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(CallTorch([]() -> absl::StatusOr<int> { return 4; }), IsOkAndHolds(4));
}

TEST(CallTorchTest, ExceptionsBecomeOneLineOfTheRightCode) {
  const auto shapes = CallTorch([] { return at::zeros({2, 3}).matmul(at::zeros({4, 5})); });
  EXPECT_THAT(shapes.status(),
              StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("2x3 and 4x5"), Not(HasSubstr("\n")))));
  EXPECT_THAT(CallTorch([] { return at::zeros({2})[5]; }).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CallTorch([] { return at::empty({int64_t{1} << 60}, at::kChar); }).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1152921504606846976 bytes")));
  EXPECT_THAT(CallTorch([] { throw std::runtime_error("first\nsecond"); }),
              StatusIs(absl::StatusCode::kInternal, "first"));
  EXPECT_THAT(CallTorch([] { throw std::bad_alloc(); }), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(CallTorch([] { throw 3; }), StatusIs(absl::StatusCode::kInternal));
}

TEST(CallTorchTest, AThrownStatusComesBackAsItIs) {
  const absl::Status status = absl::UnavailableError("rank 3 left");
  EXPECT_EQ(CallTorch([&] { ThrowIfError(status); }), status);
  EXPECT_THAT(CallTorch([] { ThrowIfError(absl::OkStatus()); }), IsOk());
  // Through the autograd engine, too.
  at::Tensor leaf = at::zeros({2}).requires_grad_(true);
  const at::Tensor out = leaf * 2;
  out.register_hook([&](const at::Tensor&) { ThrowIfError(status); });
  EXPECT_EQ(CallTorch([&] { out.sum().backward(); }), status);
}

// Units call back around forward, in order, with their number.
class RecordingHooks : public UnitHooks {
 public:
  void OnUnit(int unit, torch::nn::Module& module) override {
    events.push_back(absl::StrCat("built ", unit, " with ", module.named_parameters(false).size()));
  }
  void PreForward(int unit) override { events.push_back(absl::StrCat("pre ", unit)); }
  void PostForward(int unit, std::vector<at::Tensor>& outputs) override {
    events.push_back(absl::StrCat("post ", unit, " of ", outputs.size()));
    outputs[0] = outputs[0] + 1;
  }
  std::vector<std::string> events;
};

struct DoublerImpl : torch::nn::Module {
  DoublerImpl() { register_parameter("factor", at::zeros({1})); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& times) { return x * times; }
};
TORCH_MODULE(Doubler);

struct SplitterImpl : torch::nn::Module {
  std::vector<at::Tensor> forward(const at::Tensor& x) { return {x * 2, x * 3}; }
};
TORCH_MODULE(Splitter);

TEST(UnitsTest, HooksRunAtConstructionAndAroundForward) {
  RecordingHooks hooks;
  Units units(hooks);
  Unit<Doubler> first = units.Wrap(Doubler());
  Unit<Doubler> second = units.Wrap(Doubler());
  const at::Tensor one = at::zeros({1}) + 1;
  const at::Tensor out = second(first(one, one * 2), one * 5);
  EXPECT_EQ(out.item<float>(), 16);  // ((1 * 2 + 1) * 5 + 1
  EXPECT_EQ(units.count(), 2);
  EXPECT_THAT(hooks.events,
              ElementsAre("built 0 with 1", "built 1 with 1", "pre 0", "post 0 of 1", "pre 1", "post 1 of 1"));
}

TEST(UnitsTest, AUnitMayReturnSeveralTensors) {
  RecordingHooks hooks;
  Units units(hooks);
  Unit<Splitter> splitter = units.Wrap(Splitter());
  const std::vector<at::Tensor> out = splitter(at::zeros({1}) + 1);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].item<float>(), 3);
  EXPECT_EQ(out[1].item<float>(), 3);
  EXPECT_THAT(hooks.events, ElementsAre("built 0 with 0", "pre 0", "post 0 of 2"));
}

}  // namespace
}  // namespace shardwright
