#include "shardwright/core/format/deepspeed/zero_assembly.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/torch/torch_pieces.h"

namespace shardwright::deepspeed {
namespace {

std::string Quote(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name), "\"");
}

// Flat tensors, one behind the other.
class Concatenation {
 public:
  void Append(const Flat& flat) {
    flats_.push_back(&flat);
    begins_.push_back(elements_);
    elements_ += flat.elements();
  }

  int64_t elements() const { return elements_; }
  DType dtype() const { return flats_.empty() ? DType::kInvalid : flats_[0]->dtype; }
  bool HasOneType() const {
    return std::all_of(flats_.begin(), flats_.end(), [&](const Flat* flat) { return flat->dtype == dtype(); });
  }

  // Appends the pieces of [begin, end), which are the flat range from `at` on of a tensor of `shape`.
  void Cut(int64_t begin, int64_t end, const Shape& shape, int64_t at, std::vector<Piece>& pieces) const {
    auto next = std::upper_bound(begins_.begin(), begins_.end(), begin);
    for (size_t i = static_cast<size_t>(next - begins_.begin()) - 1; begin < end; ++i) {
      const int64_t stop = std::min(end, begins_[i] + flats_[i]->elements());
      if (stop == begin) continue;
      for (Piece& piece :
           torch_format::FlatPieces(flats_[i]->piece, begin - begins_[i], stop - begins_[i], shape, at)) {
        pieces.push_back(std::move(piece));
      }
      at += stop - begin;
      begin = stop;
    }
  }

 private:
  std::vector<const Flat*> flats_;
  std::vector<int64_t> begins_;
  int64_t elements_ = 0;
};

TensorMeta MasterMeta(const Parameter& parameter, DType dtype) {
  TensorMeta meta;
  meta.name = parameter.name;
  meta.dtype = dtype;
  meta.shape = parameter.shape;
  return meta;
}

TensorMeta SlotMeta(const Parameter& parameter, const std::string& slot, DType dtype, Shape shape) {
  TensorMeta meta;
  meta.role = Role::kOptimizer;
  meta.optimizer = {0, parameter.name, slot};
  meta.name = OptimizerTensorName(meta.optimizer);
  meta.dtype = dtype;
  meta.shape = std::move(shape);
  return meta;
}

absl::Status CheckRanks(const std::vector<RankState>& ranks, size_t groups) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankState& state = ranks[rank];
    const std::string label = absl::StrCat("optimizer file of rank ", rank);
    if (state.stage != ranks[0].stage || state.version != ranks[0].version) {
      return absl::DataLossError(absl::StrCat(label, " is of another stage or version than rank 0's"));
    }
    if (state.partition_count != static_cast<int64_t>(ranks.size())) {
      return absl::DataLossError(
          absl::StrCat(label, " is one of ", state.partition_count, ", there are ", ranks.size()));
    }
    if (state.master.size() != groups) {
      return absl::DataLossError(absl::StrCat(label, " has ", state.master.size(), " groups, want ", groups));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUnique(const CheckpointBuilder& builder, const std::vector<std::vector<Parameter>>& groups) {
  std::set<std::string> names;
  for (const std::vector<Parameter>& group : groups) {
    for (const Parameter& parameter : group) {
      if (names.insert(parameter.name).second && !builder.HasTensor(parameter.name)) continue;
      return absl::DataLossError(absl::StrCat("parameter ", Quote(parameter.name), " is there twice"));
    }
  }
  return absl::OkStatus();
}

// Names of slots that every rank has in a group; with others a load could not be whole.
absl::StatusOr<std::vector<std::string>> SlotNames(const std::vector<RankState>& ranks, size_t group) {
  std::vector<std::string> names;
  for (const auto& [name, flat] : ranks[0].slots[group]) {
    for (const RankState& rank : ranks) {
      if (rank.slots[group].count(name) > 0) continue;
      return absl::DataLossError(
          absl::StrCat("slot ", Quote(name), " of group ", group, " is not there on every rank"));
    }
    names.push_back(name);
  }
  return names;
}

// A counter is one for a whole group; each parameter points at it.
void AddScalar(CheckpointBuilder& builder, const Parameter& parameter, const std::string& slot, const Flat& flat) {
  builder.AddTensor(SlotMeta(parameter, slot, flat.dtype, {}), {flat.piece});
}

// Elements of a group's parameters, with what pads them.
class GroupOffsets {
 public:
  GroupOffsets(const std::vector<Parameter>& parameters, const std::vector<int64_t>& paddings) {
    begins_.reserve(parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      begins_.push_back(end_);
      overflow_ |= __builtin_add_overflow(end_, parameters[i].elements, &end_);
      if (i < paddings.size()) overflow_ |= __builtin_add_overflow(end_, paddings[i], &end_);
    }
  }
  bool overflow() const { return overflow_; }
  int64_t begin(size_t i) const { return begins_[i]; }
  int64_t end() const { return end_; }

 private:
  std::vector<int64_t> begins_;
  int64_t end_ = 0;
  bool overflow_ = false;
};

// Both rounded up to the granularity of partitions: tails may be padded, and the padding stripped again.
bool SameRounded(int64_t a, int64_t b, int64_t granularity) {
  return (a - 1) / granularity == (b - 1) / granularity || (a == 0 && b < granularity);
}

absl::Status AddGroup(CheckpointBuilder& builder, const std::vector<RankState>& ranks, size_t group,
                      const std::vector<Parameter>& parameters) {
  const std::vector<std::vector<int64_t>>& paddings = ranks[0].paddings;
  const GroupOffsets offsets(parameters, group < paddings.size() ? paddings[group] : std::vector<int64_t>());
  Concatenation master;
  for (const RankState& rank : ranks) master.Append(rank.master[group]);
  const int64_t granularity = 2 * static_cast<int64_t>(ranks.size());
  if (offsets.overflow() || master.elements() < offsets.end() || !master.HasOneType() ||
      !SameRounded(offsets.end(), master.elements(), granularity)) {
    return absl::DataLossError(absl::StrCat("group ", group, " has ", master.elements(),
                                            " elements over all ranks, want ", offsets.end(), " of one type"));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::vector<Piece> pieces;
    master.Cut(offsets.begin(i), offsets.begin(i) + parameters[i].elements, parameters[i].shape, 0, pieces);
    builder.AddTensor(MasterMeta(parameters[i], master.dtype()), std::move(pieces));
  }
  SW_ASSIGN_OR_RETURN(const std::vector<std::string> slots, SlotNames(ranks, group));
  for (const std::string& slot : slots) {
    const Flat& first = ranks[0].slots[group].at(slot);
    if (first.is_scalar()) {
      for (const Parameter& parameter : parameters) AddScalar(builder, parameter, slot, first);
      continue;
    }
    Concatenation flat;
    for (const RankState& rank : ranks) flat.Append(rank.slots[group].at(slot));
    if (flat.elements() < offsets.end() || !flat.HasOneType()) {
      return absl::DataLossError(absl::StrCat("slot ", Quote(slot), " of group ", group, " has ", flat.elements(),
                                              " elements over all ranks, want ", offsets.end(), " of one type"));
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      std::vector<Piece> pieces;
      flat.Cut(offsets.begin(i), offsets.begin(i) + parameters[i].elements, parameters[i].shape, 0, pieces);
      builder.AddTensor(SlotMeta(parameters[i], slot, flat.dtype(), parameters[i].shape), std::move(pieces));
    }
  }
  return absl::OkStatus();
}

int64_t PerRank(int64_t elements, size_t ranks) {
  const auto count = static_cast<int64_t>(ranks);
  return elements / count + (elements % count != 0);
}

// The pieces of a parameter that lies at `begin` of what each rank has.
std::vector<Piece> Gather(const std::vector<Concatenation>& ranks, const Parameter& parameter, int64_t begin) {
  std::vector<Piece> pieces;
  const int64_t per_rank = PerRank(parameter.elements, ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const int64_t at = static_cast<int64_t>(rank) * per_rank;
    const int64_t length = std::clamp<int64_t>(parameter.elements - at, 0, per_rank);
    if (length > 0) ranks[rank].Cut(begin, begin + length, parameter.shape, at, pieces);
  }
  return pieces;
}

// What every rank must have: the sum of the pieces of all parameters.
absl::StatusOr<std::vector<int64_t>> ScatteredBegins(const std::vector<std::vector<Parameter>>& groups, size_t ranks,
                                                     int64_t& end) {
  std::vector<int64_t> begins;
  end = 0;
  for (const std::vector<Parameter>& group : groups) {
    for (const Parameter& parameter : group) {
      begins.push_back(end);
      if (__builtin_add_overflow(end, PerRank(parameter.elements, ranks), &end)) {
        return absl::DataLossError("the parameters' elements overflow 64 bits");
      }
    }
  }
  return begins;
}

absl::Status CheckLengths(const std::vector<Concatenation>& ranks, int64_t want, absl::string_view what) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].elements() == want && ranks[rank].HasOneType() && ranks[rank].dtype() == ranks[0].dtype()) continue;
    return absl::DataLossError(absl::StrCat(what, " of rank ", rank, " has ", ranks[rank].elements(),
                                            " elements, want ", want, " of one type"));
  }
  return absl::OkStatus();
}

// Slots that are as long as the weights, of all sub-groups together; counters by sub-group.
absl::Status AddScatteredSlots(CheckpointBuilder& builder, const std::vector<RankState>& ranks,
                               const std::vector<std::vector<Parameter>>& groups, const std::vector<int64_t>& begins,
                               int64_t end) {
  std::set<std::string> names;
  for (size_t group = 0; group < groups.size(); ++group) {
    SW_ASSIGN_OR_RETURN(const std::vector<std::string> slots, SlotNames(ranks, group));
    for (const std::string& slot : slots) {
      const Flat& first = ranks[0].slots[group].at(slot);
      if (!first.is_scalar()) {
        names.insert(slot);
        continue;
      }
      for (const Parameter& parameter : groups[group]) AddScalar(builder, parameter, slot, first);
    }
  }
  for (const std::string& slot : names) {
    std::vector<Concatenation> flats(ranks.size());
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      for (const auto& slots : ranks[rank].slots) {
        const auto found = slots.find(slot);
        if (found != slots.end()) flats[rank].Append(found->second);
      }
    }
    SW_RETURN_IF_ERROR(CheckLengths(flats, end, absl::StrCat("slot ", Quote(slot))));
    size_t i = 0;
    for (const std::vector<Parameter>& group : groups) {
      for (const Parameter& parameter : group) {
        builder.AddTensor(SlotMeta(parameter, slot, flats[0].dtype(), parameter.shape),
                          Gather(flats, parameter, begins[i++]));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AddPartitioned(CheckpointBuilder& builder, const std::vector<RankState>& ranks,
                            const std::vector<std::vector<Parameter>>& groups) {
  SW_RETURN_IF_ERROR(CheckRanks(ranks, groups.size()));
  SW_RETURN_IF_ERROR(CheckUnique(builder, groups));
  for (size_t group = 0; group < groups.size(); ++group) {
    SW_RETURN_IF_ERROR(AddGroup(builder, ranks, group, groups[group]));
  }
  return absl::OkStatus();
}

absl::Status AddScattered(CheckpointBuilder& builder, const std::vector<RankState>& ranks,
                          const std::vector<std::vector<Parameter>>& groups) {
  SW_RETURN_IF_ERROR(CheckRanks(ranks, groups.size()));
  SW_RETURN_IF_ERROR(CheckUnique(builder, groups));
  std::vector<Concatenation> masters(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const Flat& flat : ranks[rank].master) masters[rank].Append(flat);
  }
  int64_t end = 0;
  SW_ASSIGN_OR_RETURN(const std::vector<int64_t> begins, ScatteredBegins(groups, ranks.size(), end));
  SW_RETURN_IF_ERROR(CheckLengths(masters, end, "the fp32 partition"));
  size_t i = 0;
  for (const std::vector<Parameter>& group : groups) {
    for (const Parameter& parameter : group) {
      builder.AddTensor(MasterMeta(parameter, masters[0].dtype()), Gather(masters, parameter, begins[i++]));
    }
  }
  return AddScatteredSlots(builder, ranks, groups, begins, end);
}

absl::Status AddScatteredFrozen(CheckpointBuilder& builder, const std::vector<ModelState>& models) {
  for (const auto& [name, shape] : models[0].frozen_shapes) {
    const Parameter parameter{name, shape, Box::Whole(shape).elements()};
    std::vector<Flat> fragments;
    fragments.reserve(models.size());
    for (const ModelState& model : models) {
      for (const auto& [fragment_name, whole] : model.frozen) {
        if (fragment_name == name) fragments.push_back({whole.dtype, whole.piece});
      }
    }
    std::vector<Concatenation> ranks(models.size());
    bool flat = fragments.size() == models.size();
    for (size_t rank = 0; flat && rank < ranks.size(); ++rank) {
      flat = fragments[rank].piece.box.rank() == 1 && fragments[rank].piece.stride[0] == 1;
      if (flat) ranks[rank].Append(fragments[rank]);
    }
    if (!flat)
      return absl::DataLossError(absl::StrCat("frozen parameter ", Quote(name), " is not there on every rank"));
    SW_RETURN_IF_ERROR(CheckLengths(ranks, PerRank(parameter.elements, ranks.size()), Quote(name)));
    TensorMeta meta = MasterMeta(parameter, fragments[0].dtype);
    meta.trainable = false;
    builder.AddTensor(std::move(meta), Gather(ranks, parameter, 0));
  }
  return absl::OkStatus();
}

}  // namespace shardwright::deepspeed
