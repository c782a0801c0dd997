// Tensors that lie in files in another way than they are wanted, made box by box.
#ifndef SHARDWRIGHT_CORE_FORMAT_COMPUTED_COMPUTED_SOURCE_H_
#define SHARDWRIGHT_CORE_FORMAT_COMPUTED_COMPUTED_SOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardwright/core/format/computed/piece.h"
#include "shardwright/core/manifest/tensor_meta.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/core/tensor/source_sink.h"

namespace shardwright {

// Thread-safe. Borrows the storage. Reads open the files they need; a window of 1 MiB and what decoding needs is all
// that they hold beside the caller's buffer.
class ComputedSource : public TensorSource {
 public:
  // `files` are the paths of the manifest's files, by index, openable as they are.
  ComputedSource(Storage& storage, std::vector<std::string> files);

  // The pieces' boxes cover the tensor.
  void Add(TensorMeta meta, std::vector<Piece> pieces);
  bool empty() const { return tensors_.empty(); }

  absl::Status Read(absl::string_view name, const Box& box, absl::Span<char> out) const override;

 private:
  struct Tensor {
    TensorMeta meta;
    std::vector<Piece> pieces;
  };

  Storage& storage_;
  const std::vector<std::string> files_;
  absl::flat_hash_map<std::string, Tensor> tensors_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_COMPUTED_COMPUTED_SOURCE_H_
