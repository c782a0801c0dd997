// Makes tensors with awkward shapes and contents, and ranks' states that hold boxes of them.
#ifndef SHARDWRIGHT_TESTS_TESTING_STATE_MAKER_H_
#define SHARDWRIGHT_TESTS_TESTING_STATE_MAKER_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "shardwright/core/plan/placement.h"
#include "shardwright/core/plan/save_plan.h"
#include "shardwright/core/tensor/local_tensor.h"

namespace shardwright::testing {

// A whole tensor with its bytes; an alias has none.
struct MadeTensor {
  TensorMeta meta;
  std::string alias_of;
  std::string bytes;
};

TensorMeta Meta(absl::string_view name, DType dtype, Shape shape, Role role = Role::kParameter);
// State of `parameter` in optimizer 0.
TensorMeta StateMeta(absl::string_view parameter, absl::string_view slot, DType dtype, Shape shape);
// Filled with bytes drawn from the generator.
MadeTensor Make(const TensorMeta& meta, std::mt19937_64& random);

// Every shape and content that checkpoints have been seen to lose: scalars, sizes 0 and 1, no elements, odd sizes, NaN
// payloads, -0, all kinds of item sizes, a tied weight, a frozen parameter, a buffer, optimizer state.
std::vector<MadeTensor> AwkwardTensors();
// `count` tensors of up to `largest_bytes` each, of random shapes, dtypes and roles.
std::vector<MadeTensor> RandomTensors(std::mt19937_64& random, int count, int64_t largest_bytes);

std::vector<SaveTensor> ToSave(const std::vector<MadeTensor>& tensors);
// What a model that holds them wants of a checkpoint: all but the aliases.
std::vector<TensorMeta> Wanted(const std::vector<MadeTensor>& tensors);

// One rank's boxes in memory of its own.
class RankState {
 public:
  // Filled from `tensors`, or with `poison` bytes.
  RankState(const std::vector<MadeTensor>& tensors, PlacementRule rule, int32_t rank, int32_t world_size);
  RankState(const std::vector<MadeTensor>& tensors, PlacementRule rule, int32_t rank, int32_t world_size, char poison);

  const LocalState& state() const { return state_; }
  // Names of the tensors whose bytes differ from those of `tensors`.
  std::vector<std::string> Differences(const std::vector<MadeTensor>& tensors) const;
  // Bytes of all boxes, one after the other.
  std::string AllBytes() const;

 private:
  void Allocate(const std::vector<MadeTensor>& tensors, PlacementRule rule, int32_t rank, int32_t world_size);
  std::vector<std::unique_ptr<char[]>> memory_;
  LocalState state_;
};

// The dense bytes of `box` of a made tensor.
std::string BoxBytes(const MadeTensor& tensor, const Box& box);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_TESTING_STATE_MAKER_H_
