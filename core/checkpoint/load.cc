#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/block_consumer.h"
#include "shardwright/core/checkpoint/checked_reader.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/checkpoint/data_files.h"
#include "shardwright/core/checkpoint/delivery.h"
#include "shardwright/core/device/buffer.h"

namespace shardwright {
namespace {

// One rank's part of a load. Ranks agree after each stage, so that one that fails in a stage takes the others along.
class LoadRun {
 public:
  LoadRun(Storage& storage, absl::string_view path, const LoadPlan& plan, TensorSink& sink, const LoadOptions& options,
          MemoryBudget& budget, Communicator& comm)
      : plan_(plan),
        sink_(sink),
        options_(options),
        budget_(budget),
        comm_(comm),
        files_(storage, path, plan.manifest()) {}

  absl::StatusOr<LoadReport> Run() {
    const absl::Time begin = absl::Now();
    SW_RETURN_IF_ERROR(Agree(Prepare()));
    if (options_.check == CheckLevel::kFull && options_.verify_first) {
      SW_RETURN_IF_ERROR(Agree(VerifyAll()));
    }
    SW_RETURN_IF_ERROR(Agree(Transfer()));
    report_.bytes_read = files_.bytes_read();
    report_.read = files_.read_time();
    report_.duration = absl::Now() - begin;
    report_.copy = std::max(absl::ZeroDuration(), report_.duration - report_.read - report_.wait);
    return report_;
  }

 private:
  absl::Status Agree(const absl::Status& mine) {
    const absl::Time begin = absl::Now();
    absl::Status all = AgreeOnStatus(comm_, mine);
    report_.wait += absl::Now() - begin;
    return all;
  }

  // Everything that can be refused before a byte moves: memory, then presence, sizes and headers of the files.
  absl::Status Prepare() {
    if (plan_.world().size != comm_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the load is planned for ", plan_.world().size, " ranks, there are ", comm_.size()));
    }
    const absl::Time begin = absl::Now();
    SW_ASSIGN_OR_RETURN(reservation_, budget_.Reserve(plan_.StagingBytes(), "loading a checkpoint"));
    report_.wait += absl::Now() - begin;
    SW_ASSIGN_OR_RETURN(window_, Allocate(plan_.staging().window_bytes));
    SW_ASSIGN_OR_RETURN(cast_, Allocate(plan_.staging().cast_bytes));
    return options_.check == CheckLevel::kOff ? absl::OkStatus() : CheckFiles();
  }

  absl::StatusOr<HostBuffer> Allocate(uint64_t bytes) {
    held_bytes_ += bytes;
    report_.transient_peak_bytes = std::max(report_.transient_peak_bytes, held_bytes_);
    return HostBuffer::Allocate(bytes);
  }

  // Every file is looked at by one rank.
  absl::Status CheckFiles() {
    const auto files = static_cast<uint32_t>(plan_.manifest().files().size());
    for (auto file = static_cast<uint32_t>(comm_.rank()); file < files; file += static_cast<uint32_t>(comm_.size())) {
      SW_RETURN_IF_ERROR(files_.CheckHeader(file, window_.span()));
    }
    return absl::OkStatus();
  }

  CheckedReader Reader() { return CheckedReader(files_, window_.span(), options_.check == CheckLevel::kFull); }

  absl::Status VerifyAll() {
    PlanVerifier verifier(plan_);
    const std::vector<Read> reads = plan_.ReadsOf(comm_.rank());
    SW_RETURN_IF_ERROR(Reader().Run(reads, plan_.Group(reads), verifier));
    for (const LoadTensor& tensor : plan_.tensors()) {
      if (!IsDerivedHere(tensor)) continue;
      for (const std::string& input : tensor.source.inputs) {
        const TensorEntry& entry = InputEntry(input);
        NullConsumer consumer(entry);
        SW_RETURN_IF_ERROR(ReadInput(entry, consumer))
            << "verifying what \"" << tensor.target.name << "\" is derived from";
      }
    }
    return absl::OkStatus();
  }

  // What can still fail for reasons of its own, a derive function, comes before what was verified.
  absl::Status Transfer() {
    Delivery delivery(sink_, cast_.span());
    for (const LoadTensor& tensor : plan_.tensors()) {
      if (!IsDerivedHere(tensor)) continue;
      SW_RETURN_IF_ERROR(Derive(tensor, delivery)) << "deriving \"" << tensor.target.name << "\"";
    }
    for (const LoadTensor& tensor : plan_.tensors()) {
      if (!tensor.source.source.empty() || tensor.source.derive) continue;
      SW_RETURN_IF_ERROR(PutWhole(tensor, tensor.source.added_bytes, delivery));
    }
    PlanConsumer consumer(plan_, delivery);
    const std::vector<Read> reads = plan_.ReadsOf(comm_.rank());
    SW_RETURN_IF_ERROR(Reader().Run(reads, plan_.Group(reads), consumer));
    return sink_.Finish();
  }

  bool IsDerivedHere(const LoadTensor& tensor) const {
    return tensor.source.derive != nullptr && !plan_.BoxOf(tensor, comm_.rank()).empty();
  }

  const TensorEntry& InputEntry(const std::string& input) const {
    return plan_.manifest().Resolve(*plan_.manifest().Find(input));
  }

  absl::Status ReadInput(const TensorEntry& entry, ReadConsumer& consumer) {
    const uint64_t window_bytes = plan_.order().window_bytes;
    const std::vector<Read> reads = ReadsOfWhole(entry, window_bytes);
    const std::vector<ReadGroup> groups = GroupReads(
        reads, [&](const Read& read) -> const ShardMeta& { return entry.shards[read.shard]; }, window_bytes);
    return Reader().Run(reads, groups, consumer);
  }

  absl::Status Derive(const LoadTensor& tensor, Delivery& delivery) {
    const uint64_t held_before = held_bytes_;
    std::vector<HostBuffer> buffers;
    std::vector<absl::Span<const char>> inputs;
    for (const std::string& input : tensor.source.inputs) {
      const TensorEntry& entry = InputEntry(input);
      SW_ASSIGN_OR_RETURN(HostBuffer buffer, Allocate(static_cast<uint64_t>(entry.meta.bytes())));
      const Box whole = Box::Whole(entry.meta.shape);
      BlockConsumer consumer(entry, whole, buffer.span());
      SW_RETURN_IF_ERROR(ReadInput(entry, consumer));
      inputs.push_back(buffer.span());
      buffers.push_back(std::move(buffer));
    }
    const int64_t out_bytes = tensor.target.elements() * ItemSize(tensor.source.stored_dtype);
    SW_ASSIGN_OR_RETURN(const HostBuffer out, Allocate(static_cast<uint64_t>(out_bytes)));
    SW_RETURN_IF_ERROR(tensor.source.derive(inputs, out.span()));
    held_bytes_ = held_before;
    return PutWhole(tensor, absl::string_view(out.data(), out.size_bytes()), delivery);
  }

  absl::Status PutWhole(const LoadTensor& tensor, absl::string_view whole, Delivery& delivery) {
    return delivery.PutFromWhole(tensor, plan_.BoxOf(tensor, comm_.rank()), whole, plan_.order().window_bytes,
                                 window_.span());
  }

  const LoadPlan& plan_;
  TensorSink& sink_;
  const LoadOptions& options_;
  MemoryBudget& budget_;
  Communicator& comm_;
  DataFiles files_;
  MemoryBudget::Reservation reservation_;
  HostBuffer window_;
  HostBuffer cast_;
  uint64_t held_bytes_ = 0;
  LoadReport report_;
};

}  // namespace

absl::StatusOr<LoadReport> LoadCheckpoint(Storage& storage, absl::string_view path, const LoadPlan& plan,
                                          TensorSink& sink, const LoadOptions& options, MemoryBudget& budget,
                                          Communicator& comm) {
  absl::StatusOr<LoadReport> report = LoadRun(storage, path, plan, sink, options, budget, comm).Run();
  SW_RETURN_IF_ERROR(report.status()) << "loading " << path;
  return report;
}

}  // namespace shardwright
