// The .metadata file of torch's distributed checkpoints: which tensors there are, how they are cut, and where each
// piece lies.
#ifndef SHARDWRIGHT_CORE_FORMAT_DCP_DCP_METADATA_H_
#define SHARDWRIGHT_CORE_FORMAT_DCP_DCP_METADATA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/manifest/box.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright::dcp {

// Where an item lies.
struct StoredItem {
  std::string path;  // a plain file name in the checkpoint's folder
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  std::vector<std::string> transforms;  // of its bytes, to be undone in this order
};

struct StoredTensor {
  DType dtype = DType::kInvalid;
  Shape shape;
  std::vector<Box> chunks;  // those that are not empty
};

// One component of the path that a flattened name was made of: a key, or an index of a list.
struct PathPart {
  std::string key;
  bool is_index = false;
};

struct Metadata {
  std::map<std::string, StoredTensor> tensors;  // by flattened name
  std::set<std::string> bytes;                  // flattened names of what is no tensor
  // By flattened name and offsets of the chunk; those of bytes are empty, like a scalar's.
  std::map<std::pair<std::string, std::vector<int64_t>>, StoredItem> items;
  std::map<std::string, std::vector<PathPart>> paths;
};

// Adds what a metadata file says to `metadata`: one file says all, or each rank's says its own part. kDataLoss for
// damage, for pickles that would act, and for paths, offsets and sizes that cannot be.
absl::Status ParseMetadata(std::string pickle_bytes, Metadata& metadata);

}  // namespace shardwright::dcp

#endif  // SHARDWRIGHT_CORE_FORMAT_DCP_DCP_METADATA_H_
