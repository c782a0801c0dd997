// Named tensors read and written by box. Modules and checkpoint formats both offer them, so that load, save and convert
// share one copy loop.
#ifndef SHARDWRIGHT_CORE_TENSOR_SOURCE_SINK_H_
#define SHARDWRIGHT_CORE_TENSOR_SOURCE_SINK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shardwright/core/tensor/local_tensor.h"
#include "shardwright/core/tensor/state_index.h"

namespace shardwright {

// Thread-safe for concurrent reads.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Fills `out` with `box` of the tensor, dense and row-major. kNotFound for an unknown tensor; kInvalidArgument if
  // this source does not hold all of `box` or `out` has another length.
  virtual absl::Status Read(absl::string_view name, const Box& box, absl::Span<char> out) const = 0;
  // The bytes themselves where they lie contiguous in memory, else an empty span: spares a copy.
  virtual absl::Span<const char> Direct(absl::string_view name, const Box& box) const { return {}; }
};

// Thread-safe for disjoint boxes.
class TensorSink {
 public:
  virtual ~TensorSink() = default;
  // Stores `box` of the tensor from dense row-major bytes. Codes as TensorSource::Read.
  virtual absl::Status Write(absl::string_view name, const Box& box, absl::Span<const char> bytes) = 0;
  // Where `box` lies contiguous in memory: bytes may be put there instead of Write. Else an empty span.
  virtual absl::Span<char> Direct(absl::string_view name, const Box& box) { return {}; }
  // After the last Write: returns once all is where it belongs; with the first error if something is not.
  virtual absl::Status Finish() { return absl::OkStatus(); }
};

// A LocalState in host memory as source and sink. Borrows the state.
class LocalTensors : public TensorSource, public TensorSink {
 public:
  explicit LocalTensors(const LocalState& state);
  absl::Status Read(absl::string_view name, const Box& box, absl::Span<char> out) const override;
  absl::Span<const char> Direct(absl::string_view name, const Box& box) const override;
  absl::Status Write(absl::string_view name, const Box& box, absl::Span<const char> bytes) override;
  absl::Span<char> Direct(absl::string_view name, const Box& box) override;

 private:
  StateIndex index_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TENSOR_SOURCE_SINK_H_
