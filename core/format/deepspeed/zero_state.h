// What the files of ZeRO's ranks say: flat partitions, and which parameters they are made of.
#ifndef SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_ZERO_STATE_H_
#define SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_ZERO_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/format/computed/piece.h"
#include "shardwright/core/format/torch/torch_pieces.h"
#include "shardwright/core/manifest/dtype.h"
#include "shardwright/core/manifest/value.h"

namespace shardwright::deepspeed {

// A dense tensor of one dimension, or a scalar.
struct Flat {
  DType dtype = DType::kInvalid;
  Piece piece;
  int64_t elements() const { return piece.box.elements(); }
  bool is_scalar() const { return piece.box.rank() == 0; }
};

// A tensor of the model file, as it lies there.
struct Whole {
  DType dtype = DType::kInvalid;
  Piece piece;
  const Shape& shape() const { return piece.box.size; }
};

struct Parameter {
  std::string name;
  Shape shape;
  int64_t elements = 0;
};

// One rank's optimizer file. Groups are optimizer groups, of stage 3 sub-groups.
struct RankState {
  int stage = 0;  // 0: it does not say
  int64_t partition_count = 0;
  std::vector<Flat> master;                        // fp32 weights, per group
  std::vector<std::map<std::string, Flat>> slots;  // exp_avg and the like, per group
  std::vector<std::vector<int64_t>> paddings;      // behind each parameter, per group; empty: none
  std::string version;
  Value param_groups;
};

// One model file.
struct ModelState {
  std::vector<std::vector<Parameter>> groups;
  std::vector<std::pair<std::string, Whole>> module;
  std::vector<std::string> buffers;
  std::vector<std::pair<std::string, Whole>> frozen;  // of stage 3: this rank's fragments
  std::map<std::string, Shape> frozen_shapes;
  std::vector<std::pair<std::string, std::string>> shared;  // alias, source
  Value::Map extras;
};

// kDataLoss, naming what is missing, unless the file is such a one.
absl::StatusOr<RankState> ReadRankState(const torch_format::PlacedFile& file);
absl::StatusOr<ModelState> ReadModelState(const torch_format::PlacedFile& file);

}  // namespace shardwright::deepspeed

#endif  // SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_ZERO_STATE_H_
