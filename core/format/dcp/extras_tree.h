// Puts values back into the nest of dicts and lists that a distributed checkpoint flattened.
#ifndef SHARDWRIGHT_CORE_FORMAT_DCP_EXTRAS_TREE_H_
#define SHARDWRIGHT_CORE_FORMAT_DCP_EXTRAS_TREE_H_

#include <map>
#include <string>
#include <vector>

#include "shardwright/core/format/dcp/dcp_metadata.h"
#include "shardwright/core/manifest/value.h"

namespace shardwright::dcp {

// Thread-compatible.
class ExtrasTree {
 public:
  void Add(const std::vector<PathPart>& path, Value value);
  // The outermost dict.
  Value::Map Take() &&;

 private:
  static Value ToValue(ExtrasTree tree);

  Value leaf_;
  std::map<std::string, ExtrasTree> named_;
  std::map<int64_t, ExtrasTree> indexed_;
};

}  // namespace shardwright::dcp

#endif  // SHARDWRIGHT_CORE_FORMAT_DCP_EXTRAS_TREE_H_
