#include "shardwright/core/format/torch/saved_object.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/torch/extras.h"

namespace shardwright::torch_format {
namespace {

using pickle::Graph;

constexpr absl::string_view kQuantizersKey = "__quantizers__";

absl::Status RefuseParts(const Graph& graph) {
  for (const std::string& name : graph.Globals()) {
    if (name == "torch._utils._rebuild_wrapper_subclass") {
      return absl::UnimplementedError(
          "the file holds one rank's parts of distributed tensors: open the folder of all ranks' files");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AddSavedObject(CheckpointBuilder& builder, const PlacedFile& file, WeightRules rules) {
  const Graph& graph = file.torch.graph;
  SW_RETURN_IF_ERROR(RefuseParts(graph));
  SW_ASSIGN_OR_RETURN(const TensorsByNode tensors, FindTensors(file.torch));
  SW_ASSIGN_OR_RETURN(const std::vector<FoundTensor> found, WalkTensors(graph, graph.root(), tensors));
  int unmapped = 0;
  if (rules.name == nullptr) rules.name = GenericWeights(graph, tensors, found);
  std::vector<TensorMeta> metas = NameTensors(graph, tensors, found, rules, &unmapped);
  TensorNames state_names;
  Value::Map quantizers;
  for (size_t i = 0; i < found.size(); ++i) {
    const TorchTensor& tensor = tensors.at(found[i].node);
    metas[i].name = builder.FreeName(metas[i].name);
    if (metas[i].role == Role::kState) state_names.emplace(found[i].node, metas[i].name);
    if (!tensor.quantizer.is_null()) quantizers.emplace(metas[i].name, tensor.quantizer);
    Piece piece = PieceOf(file, tensor, Box::Whole(tensor.shape));
    builder.AddTensor(std::move(metas[i]), {std::move(piece)});
  }
  if (unmapped > 0) {
    builder.AddNote(absl::StrCat(unmapped,
                                 " tensors of optimizer state keep their parameters' numbers: which names they "
                                 "belong to, the file does not tell for sure"));
  }
  builder.extras().merge(ToExtras(graph, graph.root(), state_names));
  if (!quantizers.empty()) builder.extras().insert_or_assign(std::string(kQuantizersKey), std::move(quantizers));
  return absl::OkStatus();
}

absl::StatusOr<OpenedCheckpoint> OpenSavedObject(Storage& storage, absl::string_view path, absl::string_view format,
                                                 WeightRules rules) {
  CheckpointBuilder builder(storage, ParentPath(path));
  SW_ASSIGN_OR_RETURN(const PlacedFile file, OpenTorchFile(builder, BaseName(path)));
  builder.data().layout = SaveLayout::kSingleFile;
  SW_RETURN_IF_ERROR(AddSavedObject(builder, file, std::move(rules))) << "reading " << path;
  absl::StatusOr<OpenedCheckpoint> opened = std::move(builder).Finish(format);
  SW_RETURN_IF_ERROR(opened.status()) << "reading " << path;
  return opened;
}

}  // namespace shardwright::torch_format
