// What the flattened names of a distributed checkpoint stand for.
#ifndef SHARDWRIGHT_CORE_FORMAT_DCP_DCP_NAMES_H_
#define SHARDWRIGHT_CORE_FORMAT_DCP_DCP_NAMES_H_

#include <map>
#include <string>
#include <vector>

#include "shardwright/core/format/dcp/dcp_metadata.h"
#include "shardwright/core/manifest/tensor_meta.h"

namespace shardwright::dcp {

// A meta for each tensor, by flattened name. Tensors keep their flattened names; optimizer state has its fields, with
// the parameter's name as the parameter's tensor has it. With `lightning`, weights have their modules' names
// ("state_dict." and "model." are what the trainer put before), and optimizer state is named after them.
std::map<std::string, TensorMeta> NameTensors(const Metadata& metadata, bool lightning);

// The parts of a flattened name.
std::vector<PathPart> PathOf(const Metadata& metadata, const std::string& name);

}  // namespace shardwright::dcp

#endif  // SHARDWRIGHT_CORE_FORMAT_DCP_DCP_NAMES_H_
