#include "shardwright/core/strategy/shard_group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/module/torch_module.h"

namespace shardwright {
namespace {

void ResizeStorage(const at::Tensor& tensor, size_t bytes) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() == bytes) return;
  // Views that autograd saved find the new memory, for they share the storage.
  storage->set_data_ptr_noswap(c10::GetAllocator(tensor.device().type())->allocate(bytes));
  storage->set_nbytes(bytes);
}

void RestoreStorage(const at::Tensor& tensor) {
  ResizeStorage(tensor, tensor.element_size() * static_cast<size_t>(tensor.numel()));
}

// The elements in one row, with a version counter of their own: what fills them is no change that would make autograd
// refuse what it saved.
at::Tensor Elements(const at::Tensor& tensor) {
  return tensor.variable_data().view({-1});
}

std::vector<TensorMeta> MetasOf(const std::vector<ShardedParameter>& parameters) {
  std::vector<TensorMeta> metas;
  for (const ShardedParameter& parameter : parameters) metas.push_back(parameter.meta);
  return metas;
}

}  // namespace

at::Tensor RowsOfTensor(const at::Tensor& tensor, const Box& box) {
  const at::Tensor whole = tensor.detach();
  return box.rank() == 0 ? whole : whole.narrow(0, box.offset[0], box.size[0]);
}

absl::Status CheckShardable(const at::Tensor& tensor) {
  const size_t bytes = tensor.element_size() * static_cast<size_t>(tensor.numel());
  const char* problem = !tensor.is_contiguous()                                              ? "is not contiguous"
                        : tensor.storage_offset() != 0 || tensor.storage().nbytes() != bytes ? "shares its memory"
                                                                                             : nullptr;
  if (problem == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a parameter of shape ", ShapeToString(tensor.sizes().vec()), " ",
                                                 problem, ", so it cannot be sharded"));
}

void FreeStorage(const at::Tensor& tensor) {
  ResizeStorage(tensor, 0);
}

at::Tensor WithoutMemory(at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty({0}, options);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

ShardGroup::ShardGroup(std::vector<ShardedParameter> parameters, Communicator& comm)
    : parameters_(std::move(parameters)), comm_(comm), layout_(MetasOf(parameters_), comm.size()) {
  for (const ShardedParameter& parameter : parameters_) {
    SW_CHECK(parameter.full.scalar_type() == parameters_.front().full.scalar_type());
    SW_CHECK(parameter.shard.scalar_type() == parameters_.front().shard.scalar_type());
    SW_CHECK(parameter.meta.trainable == trainable());
  }
}

ShardGroup::~ShardGroup() {
  DropGradients();
}

at::Tensor ShardGroup::MakeFlat(at::ScalarType dtype) const {
  return at::empty({layout_.elements()}, parameters_.front().shard.options().dtype(dtype).requires_grad(false));
}

absl::Status ShardGroup::StartGather() {
  if (gathered_ || gathering_.defined()) return absl::OkStatus();
  c10::NoGradGuard no_grad;
  at::Tensor flat = MakeFlat(parameters_.front().full.scalar_type());
  for (const ShardPiece& piece : layout_.PiecesOf(comm_.rank())) {
    flat.narrow(0, piece.flat_begin, piece.elements).copy_(Elements(parameters_[piece.tensor].shard));
  }
  SW_ASSIGN_OR_RETURN(gather_,
                      comm_.AllGatherAsync(flat.mutable_data_ptr(), layout_.counts(), ToDType(flat.scalar_type())));
  gathering_ = std::move(flat);
  return absl::OkStatus();
}

absl::Status ShardGroup::FinishGather() {
  if (gathered_) return absl::OkStatus();
  SW_CHECK(gathering_.defined());
  const absl::Status waited = gather_->Wait();
  gather_.reset();
  const at::Tensor flat = std::exchange(gathering_, at::Tensor());
  SW_RETURN_IF_ERROR(waited) << "gathering parameters";
  c10::NoGradGuard no_grad;
  for (const ShardedParameter& parameter : parameters_) RestoreStorage(parameter.full);
  for (const ShardPiece& piece : layout_.pieces()) {
    Elements(parameters_[piece.tensor].full)
        .narrow(0, piece.tensor_begin, piece.elements)
        .copy_(flat.narrow(0, piece.flat_begin, piece.elements));
  }
  gathered_ = true;
  return absl::OkStatus();
}

void ShardGroup::Free() {
  gather_.reset();  // waits
  gathering_.reset();
  for (const ShardedParameter& parameter : parameters_) FreeStorage(parameter.full);
  gathered_ = false;
}

void ShardGroup::ZeroGradients() {
  c10::NoGradGuard no_grad;
  reduction_.reset();
  reducing_.reset();
  for (const ShardedParameter& parameter : parameters_) parameter.full.mutable_grad().reset();
  gradients_ = at::zeros({layout_.counts()[comm_.rank()]}, parameters_.front().shard.options().requires_grad(false));
  for (const ShardedParameter& parameter : parameters_) parameter.shard.mutable_grad().reset();
  int64_t begin = 0;
  for (const ShardPiece& piece : layout_.PiecesOf(comm_.rank())) {
    const at::Tensor& shard = parameters_[piece.tensor].shard;
    shard.mutable_grad() = gradients_.narrow(0, begin, piece.elements).view(shard.sizes());
    begin += piece.elements;
  }
}

absl::Status ShardGroup::StartReduce() {
  SW_CHECK(!reducing_.defined());
  c10::NoGradGuard no_grad;
  at::Tensor flat = MakeFlat(parameters_.front().shard.scalar_type());
  std::vector<at::Tensor> gradients;
  for (const ShardedParameter& parameter : parameters_) {
    const at::Tensor gradient = std::exchange(parameter.full.mutable_grad(), at::Tensor());
    gradients.push_back(gradient.defined() ? gradient.contiguous().view({-1}) : gradient);
  }
  for (const ShardPiece& piece : layout_.pieces()) {
    at::Tensor target = flat.narrow(0, piece.flat_begin, piece.elements);
    const at::Tensor& gradient = gradients[piece.tensor];
    if (gradient.defined()) {
      target.copy_(gradient.narrow(0, piece.tensor_begin, piece.elements));
    } else {
      target.zero_();
    }
  }
  SW_ASSIGN_OR_RETURN(reduction_, comm_.ReduceScatterAsync(flat.mutable_data_ptr(), layout_.counts(),
                                                           ToDType(flat.scalar_type()), ReduceOp::kSum));
  reducing_ = std::move(flat);
  return absl::OkStatus();
}

absl::Status ShardGroup::FinishReduce() {
  if (!reducing_.defined()) return absl::OkStatus();
  const absl::Status waited = reduction_->Wait();
  reduction_.reset();
  const at::Tensor flat = std::exchange(reducing_, at::Tensor());
  SW_RETURN_IF_ERROR(waited) << "reducing gradients";
  c10::NoGradGuard no_grad;
  const absl::Span<const ShardPiece> mine = layout_.PiecesOf(comm_.rank());
  if (!mine.empty()) gradients_.add_(flat.narrow(0, mine.front().flat_begin, gradients_.numel()));
  return absl::OkStatus();
}

void ShardGroup::MeanGradients() {
  c10::NoGradGuard no_grad;
  gradients_.div_(comm_.size());
}

void ShardGroup::DropGradients() {
  for (const ShardedParameter& parameter : parameters_) parameter.shard.mutable_grad().reset();
  gradients_.reset();
}

uint64_t ShardGroup::full_bytes() const {
  uint64_t bytes = 0;
  for (const ShardedParameter& parameter : parameters_) {
    bytes += parameter.full.element_size() * static_cast<uint64_t>(parameter.full.numel());
  }
  return bytes;
}

std::vector<std::unique_ptr<ShardGroup>> MakeShardGroups(const std::vector<ShardedParameter>& parameters,
                                                         Communicator& comm) {
  std::vector<std::vector<ShardedParameter>> groups;
  std::map<std::pair<at::ScalarType, bool>, size_t> known;
  for (const ShardedParameter& parameter : parameters) {
    const auto key = std::make_pair(parameter.full.scalar_type(), parameter.meta.trainable);
    const auto [group, is_new] = known.emplace(key, groups.size());
    if (is_new) groups.emplace_back();
    groups[group->second].push_back(parameter);
  }
  std::vector<std::unique_ptr<ShardGroup>> made;
  for (std::vector<ShardedParameter>& group : groups) {
    made.push_back(std::make_unique<ShardGroup>(std::move(group), comm));
  }
  return made;
}

}  // namespace shardwright
