// Checkpoints without a training run: open, read slices, write, verify. Torch-free; depend on
// @shardwright//:checkpoint.
//
//   SW_ASSIGN_OR_RETURN(auto checkpoint, shardwright::OpenCheckpoint("/ckpt/step-00004000"));
//   const TensorMeta& meta = checkpoint->manifest().Find("wte.weight")->meta;
//   std::vector<char> bytes(meta.bytes());
//   SW_RETURN_IF_ERROR(checkpoint->Read("wte.weight", Box::Whole(meta.shape), absl::MakeSpan(bytes)));
#ifndef SHARDWRIGHT_CHECKPOINT_H_
#define SHARDWRIGHT_CHECKPOINT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/checkpoint/verify.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/core/tensor/local_tensor.h"

namespace shardwright {

// An open checkpoint. Thread-safe. Files are opened per read; deleting the checkpoint meanwhile makes reads fail.
class Checkpoint {
 public:
  Checkpoint(std::unique_ptr<Storage> storage, std::string path, std::shared_ptr<const Manifest> manifest)
      : storage_(std::move(storage)), path_(std::move(path)), manifest_(std::move(manifest)) {}

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return *manifest_; }

  // Fills `out` with `box` of the tensor (or of what it is an alias of): dense, row-major, dtype as stored,
  // little-endian. Reads just the bytes of the box, widened to whole checksum chunks. kNotFound for an unknown name;
  // kInvalidArgument for a box outside the shape or an `out` of another length; kDataLoss naming tensor, shard, file
  // and offset for damage.
  absl::Status Read(absl::string_view name, const Box& box, absl::Span<char> out,
                    CheckLevel check = CheckLevel::kFull) const {
    return ReadBox(*storage_, path_, *manifest_, name, box, out, check);
  }

 private:
  std::unique_ptr<Storage> storage_;
  std::string path_;
  std::shared_ptr<const Manifest> manifest_;
};

// Reads and validates the manifest; no tensor bytes. Codes as OpenManifest.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpoint(absl::string_view path);

// Every problem of a checkpoint's bytes. A full check reads all of them.
VerifyResult Verify(absl::string_view path, CheckLevel level = CheckLevel::kFull);

// Writes whole tensors as a checkpoint, atomically: it is there whole or not at all. kAlreadyExists if `path` is taken.
absl::StatusOr<SaveReport> WriteCheckpoint(absl::string_view path, const LocalState& tensors,
                                           const SaveContent& content, SaveLayout layout = SaveLayout::kSingleFile);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CHECKPOINT_H_
