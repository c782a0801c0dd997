// Writes the golden checkpoints of the present format version: make_golden DIRECTORY. Run once per version, never to
// make a failing test pass: README.md.
#include <cstdio>
#include <string>
#include <vector>

#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/core/tensor/source_sink.h"
#include "shardwright/tests/golden/golden_state.h"

namespace shardwright::testing {
namespace {

// A rank's boxes of the golden tensors and the memory under them.
class RankState {
 public:
  RankState(PlacementRule rule, int32_t rank) {
    const std::vector<GoldenTensor> tensors = GoldenTensors();
    memory_.reserve(tensors.size());  // the state points into it
    for (const GoldenTensor& tensor : tensors) {
      const Box box = rule(tensor.meta, rank, kGoldenWorldSize);
      std::string& bytes = memory_.emplace_back(tensor.meta.BytesOf(box), '\0');
      CopyBox(GoldenBytes(tensor).data(), Box::Whole(tensor.meta.shape), bytes.data(), box, box,
              ItemSize(tensor.meta.dtype));
      state_.push_back({tensor.meta, box, bytes.data(), tensor.alias_of});
    }
  }

  const LocalState& state() const { return state_; }

 private:
  std::vector<std::string> memory_;
  LocalState state_;
};

absl::Status SaveRank(Storage& storage, const std::string& path, const SavePlan& plan, PlacementRule rule,
                      CommGroups& groups) {
  const RankState state(rule, groups.rank());
  MemoryBudget budget;
  const SaveContent content = {GoldenProgress(), GoldenTopology(), GoldenLoadOrder(), GoldenExtras(),
                               GoldenRankExtras(groups.rank())};
  return SaveCheckpoint(storage, path, plan, LocalTensors(state.state()), content, budget, *groups.checkpoint).status();
}

absl::Status SaveLayoutOf(Storage& storage, const std::string& directory, SaveLayout layout) {
  SW_ASSIGN_OR_RETURN(const PlacementRule rule, PlacementRules().Find(kGoldenStrategy));
  std::vector<SaveTensor> tensors;
  for (const GoldenTensor& tensor : GoldenTensors()) tensors.push_back({tensor.meta, tensor.alias_of});
  SavePlanOptions options;
  options.layout = layout;
  SW_ASSIGN_OR_RETURN(const SavePlan plan,
                      PlanSave(std::move(tensors), rule, {kGoldenWorldSize, kGoldenWorldSize}, options));
  const std::string path = JoinPath(directory, SaveLayoutName(layout));
  for (const absl::Status& status :
       RunRanks(kGoldenWorldSize, [&](CommGroups& groups) { return SaveRank(storage, path, plan, rule, groups); })) {
    SW_RETURN_IF_ERROR(status) << "saving " << path;
  }
  return absl::OkStatus();
}

absl::Status Main(const std::string& directory) {
  const std::unique_ptr<Storage> storage = MakePosixStorage();
  SW_RETURN_IF_ERROR(storage->CreateDirectories(directory));
  SW_RETURN_IF_ERROR(SaveLayoutOf(*storage, directory, SaveLayout::kSharded));
  return SaveLayoutOf(*storage, directory, SaveLayout::kSingleFile);
}

}  // namespace
}  // namespace shardwright::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_golden DIRECTORY\n");
    return 2;
  }
  const absl::Status status = shardwright::testing::Main(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
