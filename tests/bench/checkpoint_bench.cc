// Rates of saving and loading, CRC and content hash included, beside plain write and pread of the same bytes.
//
//   bazel run //tests/bench:checkpoint_bench -- --dir=/dev/shm --bytes=1GiB --pairs=7
//
// Both sides are equally durable (fsync) and move the same bytes between the same memory and the same file system, by
// turns.
#include <fcntl.h>
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "shardwright/checkpoint.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/memory_budget.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/device/buffer.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/plan/load_plan.h"
#include "shardwright/core/plan/load_view.h"
#include "shardwright/core/plan/match.h"
#include "shardwright/core/plan/placement.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/core/tensor/source_sink.h"
#include "shardwright/tests/bench/paired.h"

DEFINE_string(dir, "/dev/shm", "folder to write into; a memory file system shows the processor's part");
DEFINE_string(bytes, "1GiB", "size of the state");
DEFINE_int32(pairs, 7, "timed pairs of each scenario");
DEFINE_int64(tensor_bytes, 16 << 20, "size of the large tensors; every tenth is small");

namespace shardwright::bench {
namespace {

constexpr uint64_t kPlainWindowBytes = 8 << 20;

// A state of float tensors over one block of touched memory.
struct State {
  HostBuffer memory;
  LocalState tensors;
  uint64_t bytes = 0;
};

State MakeState(uint64_t bytes) {
  State state;
  state.memory = *HostBuffer::Allocate(bytes);
  for (uint64_t i = 0; i < bytes / 8; ++i)
    reinterpret_cast<uint64_t*>(state.memory.data())[i] = i * 0x9E3779B97F4A7C15u;
  for (int index = 0; state.bytes < bytes; ++index) {
    const int64_t want = index % 10 == 9 ? 4096 : FLAGS_tensor_bytes;
    const int64_t elements = std::min<int64_t>(want, static_cast<int64_t>(bytes - state.bytes)) / 4;
    LocalTensor tensor;
    tensor.meta.name = absl::StrCat("layer.", index, ".weight");
    tensor.meta.dtype = DType::kFloat32;
    tensor.meta.shape = {elements};
    tensor.box = Box::Whole(tensor.meta.shape);
    tensor.data = state.memory.data() + state.bytes;
    state.bytes += static_cast<uint64_t>(tensor.bytes());
    state.tensors.push_back(std::move(tensor));
  }
  return state;
}

double Seconds(absl::Time start) {
  return absl::ToDoubleSeconds(absl::Now() - start);
}

double PlainWrite(const State& state, const std::string& path) {
  unlink(path.c_str());
  const absl::Time start = absl::Now();
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  SW_CHECK(fd >= 0);
  for (uint64_t at = 0; at < state.bytes; at += kPlainWindowBytes) {
    const uint64_t length = std::min(kPlainWindowBytes, state.bytes - at);
    SW_CHECK(pwrite(fd, state.memory.data() + at, length, static_cast<off_t>(at)) == static_cast<ssize_t>(length));
  }
  SW_CHECK(fsync(fd) == 0 && close(fd) == 0);
  return Seconds(start);
}

double PlainRead(const State& state, const std::string& path) {
  const absl::Time start = absl::Now();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  SW_CHECK(fd >= 0);
  for (uint64_t at = 0; at < state.bytes; at += kPlainWindowBytes) {
    const uint64_t length = std::min(kPlainWindowBytes, state.bytes - at);
    SW_CHECK(pread(fd, state.memory.data() + at, length, static_cast<off_t>(at)) == static_cast<ssize_t>(length));
  }
  SW_CHECK(close(fd) == 0);
  return Seconds(start);
}

double Save(const State& state, const std::string& path, SaveLayout layout) {
  SW_CHECK(RemoveTree(*MakePosixStorage(), path).ok());
  const absl::Time start = absl::Now();
  const absl::Status status = WriteCheckpoint(path, state.tensors, {}, layout).status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  SW_CHECK(status.ok());
  return Seconds(start);
}

double Load(State& state, const std::string& path, bool verify_first) {
  const std::unique_ptr<Storage> storage = MakePosixStorage();
  const absl::Time start = absl::Now();
  const std::shared_ptr<const Manifest> manifest = *OpenManifest(*storage, path);
  std::vector<TensorMeta> wanted;
  for (const LocalTensor& tensor : state.tensors) wanted.push_back(tensor.meta);
  MatchResult match = MatchTensors(LoadView(manifest), wanted, {}, {});
  SW_CHECK(match.problems.empty());
  const LoadPlan plan =
      *PlanLoad(manifest, std::move(match.tensors), &ReplicatedBox, World{}, {}, MemoryBudget::kUnlimited);
  std::vector<CommGroups> alone = MakeThreadGroups(1);
  MemoryBudget budget;
  LocalTensors sink(state.tensors);
  LoadOptions options;
  options.verify_first = verify_first;
  const absl::Status status = LoadCheckpoint(*storage, path, plan, sink, options, budget, *alone[0].control).status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  SW_CHECK(status.ok());
  return Seconds(start);
}

int Main() {
  const absl::StatusOr<uint64_t> bytes = ParseBytes(FLAGS_bytes);
  if (!bytes.ok()) return std::fprintf(stderr, "--bytes: %s\n", bytes.status().ToString().c_str()), 2;
  State state = MakeState(*bytes / 4096 * 4096);
  const std::string folder = absl::StrCat(FLAGS_dir, "/checkpoint_bench.", getpid());
  const std::unique_ptr<Storage> storage = MakePosixStorage();
  SW_CHECK(storage->CreateDirectories(folder).ok());
  const std::string checkpoint = folder + "/checkpoint", plain = folder + "/plain";
  std::printf("%s of state in %s, %d pairs, medians\n", FormatBytes(state.bytes).c_str(), FLAGS_dir.c_str(),
              FLAGS_pairs);
  const auto report = [&](absl::string_view scenario, const PairedResult& result) {
    std::fputs(FormatPaired(scenario, state.bytes, result).c_str(), stdout);
    std::fflush(stdout);
  };
  for (const SaveLayout layout : {SaveLayout::kSharded, SaveLayout::kSingleFile}) {
    report(absl::StrCat("save ", SaveLayoutName(layout)),
           RunPairs(
               FLAGS_pairs, [&] { return Save(state, checkpoint, layout); }, [&] { return PlainWrite(state, plain); }));
  }
  for (const bool verify_first : {false, true}) {
    report(verify_first ? "load, verified first" : "load",
           RunPairs(
               FLAGS_pairs, [&] { return Load(state, checkpoint, verify_first); },
               [&] { return PlainRead(state, plain); }));
  }
  SW_CHECK(RemoveTree(*storage, folder).ok());
  std::fputs(DescribeMachine().c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace shardwright::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return shardwright::bench::Main();
}
