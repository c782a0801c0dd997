// The tensors of an opened checkpoint, whatever its format.
#ifndef SHARDWRIGHT_CORE_FORMAT_OPENED_SOURCE_H_
#define SHARDWRIGHT_CORE_FORMAT_OPENED_SOURCE_H_

#include "absl/status/status.h"
#include "shardwright/core/format/format.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/core/tensor/source_sink.h"

namespace shardwright {

// Thread-safe. Borrows both. Reads just the bytes of the box, through a window of 1 MiB; opens files as it needs them.
// Checks no checksums: what plans and verifies them reads through the manifest.
class OpenedSource : public TensorSource {
 public:
  OpenedSource(Storage& storage, const OpenedCheckpoint& opened) : storage_(storage), opened_(opened) {}
  absl::Status Read(absl::string_view name, const Box& box, absl::Span<char> out) const override;

 private:
  absl::Status ReadShards(const TensorEntry& entry, const Box& box, absl::Span<char> out) const;

  Storage& storage_;
  const OpenedCheckpoint& opened_;
};

// Reads all bytes that the other system kept checksums of. kDataLoss naming file and range of the first that differs.
absl::Status VerifyForeignChecksums(Storage& storage, const OpenedCheckpoint& opened);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_OPENED_SOURCE_H_
