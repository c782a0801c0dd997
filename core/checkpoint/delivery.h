// Puts what a load has read, or was given, into the sink: the right box, in the target's dtype.
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_DELIVERY_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_DELIVERY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardwright/core/checkpoint/checked_reader.h"
#include "shardwright/core/plan/load_plan.h"
#include "shardwright/core/tensor/source_sink.h"

namespace shardwright {

// Thread-compatible. Borrows all it is given. `cast_buffer` holds a window after conversion.
class Delivery {
 public:
  Delivery(TensorSink& sink, absl::Span<char> cast_buffer) : sink_(sink), cast_buffer_(cast_buffer) {}

  // Where `box` may be put without a conversion; empty if it may not.
  absl::Span<char> Direct(const LoadTensor& tensor, const Box& box);
  // `dense` holds `box` in the stored dtype; at most a window of it.
  absl::Status Put(const LoadTensor& tensor, const Box& box, absl::Span<const char> dense);
  // As Put, of a whole tensor in memory and in pieces; what is not contiguous goes through `window`.
  absl::Status PutFromWhole(const LoadTensor& tensor, const Box& box, absl::Span<const char> whole,
                            uint64_t window_bytes, absl::Span<char> window);

 private:
  TensorSink& sink_;
  const absl::Span<char> cast_buffer_;
};

// Delivers the reads of a plan.
class PlanConsumer : public ReadConsumer {
 public:
  PlanConsumer(const LoadPlan& plan, Delivery& delivery) : plan_(plan), delivery_(delivery) {}
  const TensorEntry& EntryOf(const Read& read) const override { return *plan_.EntryOf(read.tensor); }
  absl::Span<char> Direct(const Read& read) override;
  absl::Status Take(const Read& read, absl::Span<char> bytes) override;

 private:
  const LoadPlan& plan_;
  Delivery& delivery_;
};

// Verifies the reads of a plan and drops them.
class PlanVerifier : public ReadConsumer {
 public:
  explicit PlanVerifier(const LoadPlan& plan) : plan_(plan) {}
  const TensorEntry& EntryOf(const Read& read) const override { return *plan_.EntryOf(read.tensor); }
  absl::Status Take(const Read& read, absl::Span<char> bytes) override { return absl::OkStatus(); }

 private:
  const LoadPlan& plan_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_DELIVERY_H_
