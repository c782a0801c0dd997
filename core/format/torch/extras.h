// What a saved object holds besides tensors, as extras: plain data stay, classes stay names, nothing is run.
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_EXTRAS_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_EXTRAS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "shardwright/core/format/pickle/graph.h"
#include "shardwright/core/manifest/value.h"

namespace shardwright::torch_format {

// Names of tensors by node; a tensor of no name there is left out.
using TensorNames = absl::flat_hash_map<pickle::NodeId, std::string>;

// Objects of classes become {"__class__": opaque, attributes...}, or opaque alone where they have none. Dicts and lists
// of nothing but unnamed tensors are left out. Cut, with an opaque "..." for the rest, where it would be deeper than
// extras may be or, for shared parts, larger than the pickle justifies.
Value ToValue(const pickle::Graph& graph, pickle::NodeId node, const TensorNames& names);

// The same of a dict (or object), whose keys in `skipped` are left out.
Value::Map ToExtras(const pickle::Graph& graph, pickle::NodeId node, const TensorNames& names,
                    const std::vector<std::string>& skipped = {});

// The classes and functions in a graph that readers have no name for: what a note to the user lists.
std::vector<std::string> UnknownClasses(const pickle::Graph& graph);

}  // namespace shardwright::torch_format

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_EXTRAS_H_
