#include "shardwright/core/format/dcp/extras_tree.h"

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace shardwright::dcp {

void ExtrasTree::Add(const std::vector<PathPart>& path, Value value) {
  ExtrasTree* at = this;
  for (const PathPart& part : path) {
    int64_t index = 0;
    const bool indexed = part.is_index && absl::SimpleAtoi(part.key, &index);
    at = indexed ? &at->indexed_[index] : &at->named_[part.key];
  }
  at->leaf_ = std::move(value);
}

Value ExtrasTree::ToValue(ExtrasTree tree) {
  if (tree.named_.empty() && tree.indexed_.empty()) return std::move(tree.leaf_);
  if (!tree.named_.empty()) return std::move(tree).Take();
  // Indices of what lies elsewhere (tensors) are left out: the rest keep their order.
  Value::List list;
  for (auto& [index, child] : tree.indexed_) list.push_back(ToValue(std::move(child)));
  return list;
}

Value::Map ExtrasTree::Take() && {
  Value::Map map;
  for (auto& [key, child] : named_) map.emplace(key, ToValue(std::move(child)));
  for (auto& [index, child] : indexed_) map.emplace(absl::StrCat(index), ToValue(std::move(child)));
  return map;
}

}  // namespace shardwright::dcp
