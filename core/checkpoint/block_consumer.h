// Reads into a dense block of memory of the stored dtype, or nowhere.
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_BLOCK_CONSUMER_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_BLOCK_CONSUMER_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardwright/core/checkpoint/checked_reader.h"

namespace shardwright {

// Makes the elements of `part` dense, at the front of `span`: `span` begins at the first element of `part` in the dense
// block `container` and ends with the last. Returns the dense bytes.
absl::Span<char> PackInPlace(const Box& container, const Box& part, int64_t item_bytes, absl::Span<char> span);

// Fills `block` of one stored tensor, dense in `memory`.
class BlockConsumer : public ReadConsumer {
 public:
  BlockConsumer(const TensorEntry& entry, const Box& block, absl::Span<char> memory)
      : entry_(entry), block_(block), memory_(memory) {}
  const TensorEntry& EntryOf(const Read& read) const override { return entry_; }
  absl::Span<char> Direct(const Read& read) override;
  absl::Status Take(const Read& read, absl::Span<char> bytes) override;

 private:
  const TensorEntry& entry_;
  const Box& block_;
  const absl::Span<char> memory_;
};

// Drops what is read: only the verification counts.
class NullConsumer : public ReadConsumer {
 public:
  explicit NullConsumer(const TensorEntry& entry) : entry_(entry) {}
  const TensorEntry& EntryOf(const Read& read) const override { return entry_; }
  absl::Status Take(const Read& read, absl::Span<char> bytes) override { return absl::OkStatus(); }

 private:
  const TensorEntry& entry_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_BLOCK_CONSUMER_H_
