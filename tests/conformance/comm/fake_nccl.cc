// Plays NCCL and the CUDA runtime, of four devices, in host memory: linked into a program, these definitions come
// before the libraries'. Ranks are threads.
//
// As hard as the real ones where it matters: a group of calls is not in its stream before its communicator was asked
// about it; a collective is done when the last rank has issued it, and only then is memory touched; a peer that is gone
// is noticed by nobody; an aborted communicator touches no memory any more, and what it had under way counts as ended.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "shardwright/core/comm/reduce.h"
#include "shardwright/core/manifest/dtype.h"

namespace {

using shardwright::DType;
using shardwright::ReduceOp;

constexpr int kDevices = 4;

absl::Mutex mu;

// One rank's call of one collective.
struct Call {
  enum Kind { kBroadcast, kAllReduce, kAllGather, kReduce, kReduceScatter } kind;
  const void* in;
  void* out;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;

  friend bool operator==(const Call& a, const Call& b) {
    return a.kind == b.kind && a.count == b.count && a.type == b.type && a.op == b.op && a.root == b.root;
  }
};

// One group of calls of all ranks.
struct Job {
  explicit Job(int size) : calls(size), aborted(size) {}

  std::vector<std::vector<Call>> calls;  // by rank
  std::vector<bool> aborted;             // by rank
  int issued = 0;
  bool done = false;
  bool lost = false;  // for a rank has aborted it
  bool over(int rank) const { return done || aborted[rank]; }
};

struct World {
  int size = 0;
  int joined = 0;
  std::vector<std::shared_ptr<Job>> jobs;
};

std::map<std::string, std::shared_ptr<World>>& Worlds() {
  static auto* worlds = new std::map<std::string, std::shared_ptr<World>>;
  return *worlds;
}

size_t ItemBytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

DType DTypeOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return DType::kInt8;
    case ncclUint8:
      return DType::kUInt8;
    case ncclInt32:
      return DType::kInt32;
    case ncclInt64:
      return DType::kInt64;
    case ncclFloat16:
      return DType::kFloat16;
    case ncclBfloat16:
      return DType::kBFloat16;
    case ncclFloat32:
      return DType::kFloat32;
    case ncclFloat64:
      return DType::kFloat64;
    default:
      return DType::kInvalid;
  }
}

ReduceOp OpOf(ncclRedOp_t op) {
  return op == ncclMin ? ReduceOp::kMin : op == ncclMax ? ReduceOp::kMax : ReduceOp::kSum;
}

// `count` elements from element `begin` on, reduced over the ranks.
std::string Reduced(const std::vector<const Call*>& ranks, size_t begin, size_t count) {
  const Call& call = *ranks[0];
  std::vector<const void*> inputs;
  for (const Call* rank : ranks) inputs.push_back(static_cast<const char*>(rank->in) + begin * ItemBytes(call.type));
  std::string result(count * ItemBytes(call.type), '\0');
  shardwright::Reduce(DTypeOf(call.type), OpOf(call.op), inputs, static_cast<int64_t>(count), result.data());
  return result;
}

void Put(const std::string& bytes, void* to) {
  std::memcpy(to, bytes.data(), bytes.size());
}

// `ranks`: the same call, by rank.
void Compute(const std::vector<const Call*>& ranks) {
  const Call& call = *ranks[0];
  const size_t bytes = call.count * ItemBytes(call.type);
  const auto input = [&](size_t rank) { return std::string(static_cast<const char*>(ranks[rank]->in), bytes); };
  std::vector<std::string> pieces;
  switch (call.kind) {
    case Call::kBroadcast:
      for (const Call* rank : ranks) Put(input(call.root), rank->out);
      return;
    case Call::kAllReduce:
      pieces.push_back(Reduced(ranks, 0, call.count));
      for (const Call* rank : ranks) Put(pieces[0], rank->out);
      return;
    case Call::kReduce:
      return Put(Reduced(ranks, 0, call.count), ranks[call.root]->out);
    case Call::kAllGather:
      for (size_t source = 0; source < ranks.size(); ++source) {
        for (const Call* rank : ranks) Put(input(source), static_cast<char*>(rank->out) + source * bytes);
      }
      return;
    case Call::kReduceScatter:
      for (size_t rank = 0; rank < ranks.size(); ++rank)
        pieces.push_back(Reduced(ranks, rank * call.count, call.count));
      for (size_t rank = 0; rank < ranks.size(); ++rank) Put(pieces[rank], ranks[rank]->out);
  }
}

// False if the ranks do not agree on what they do.
bool Compute(const Job& job) {
  for (const auto& calls : job.calls) {
    if (calls != job.calls[0]) return false;
  }
  for (size_t i = 0; i < job.calls[0].size(); ++i) {
    std::vector<const Call*> ranks;
    for (const auto& calls : job.calls) ranks.push_back(&calls[i]);
    Compute(ranks);
  }
  return true;
}

thread_local int device = 0;
thread_local std::vector<std::pair<ncclComm_t, Call>> grouped;
thread_local cudaStream_t grouped_stream = nullptr;

ncclResult_t Add(ncclComm_t comm, cudaStream_t stream, const Call& call) {
  grouped.emplace_back(comm, call);
  grouped_stream = stream;
  return ncclSuccess;
}

}  // namespace

struct CUstream_st {
  std::shared_ptr<Job> last;  // null: it was given nothing
  int rank = 0;
  bool idle() const { return last == nullptr || last->over(rank); }
};

// What its stream was given before it.
struct CUevent_st {
  CUstream_st before;
};

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0;
  size_t issued = 0;               // jobs
  std::vector<Call> pending = {};  // a group that is not in its stream yet
  cudaStream_t stream = nullptr;   // its
  ncclResult_t error = ncclSuccess;
};

namespace {

// Puts the pending group into its stream; the last rank to do so computes.
void Issue(ncclComm& comm) {
  World& world = *comm.world;
  if (comm.issued == world.jobs.size()) world.jobs.push_back(std::make_shared<Job>(world.size));
  const std::shared_ptr<Job> job = world.jobs[comm.issued++];
  job->calls[comm.rank] = std::move(comm.pending);
  comm.pending.clear();
  comm.stream->last = job;
  comm.stream->rank = comm.rank;
  if (++job->issued < world.size || job->lost) return;
  if (!Compute(*job)) comm.error = ncclInvalidUsage;
  job->done = true;
}

}  // namespace

extern "C" {

// -- NCCL

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int next = 0;
  absl::MutexLock lock(&mu);
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, &++next, sizeof(next));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  absl::MutexLock lock(&mu);
  std::shared_ptr<World>& world = Worlds()[std::string(id.internal, sizeof(id.internal))];
  if (world == nullptr) world = std::make_shared<World>();
  world->size = size;
  ++world->joined;
  *comm = new ncclComm{.world = world, .rank = rank};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  absl::MutexLock lock(&mu);
  const bool busy = !comm->pending.empty() || comm->world->joined < comm->world->size;
  *state = busy ? ncclInProgress : comm->error;
  if (!comm->pending.empty()) Issue(*comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  absl::MutexLock lock(&mu);
  for (const auto& job : comm->world->jobs) {
    if (!job->done) job->lost = job->aborted[comm->rank] = true;
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  absl::MutexLock lock(&mu);
  if (grouped.empty()) return ncclSuccess;
  ncclComm& comm = *grouped[0].first;
  if (!comm.pending.empty()) return ncclInvalidUsage;
  for (const auto& [unused, call] : grouped) comm.pending.push_back(call);
  comm.stream = grouped_stream;
  grouped.clear();
  return ncclInProgress;
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return Add(comm, stream, {Call::kBroadcast, in, out, count, type, ncclSum, root});
}
ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {Call::kAllReduce, in, out, count, type, op, -1});
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return Add(comm, stream, {Call::kAllGather, in, out, count, type, ncclSum, -1});
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {Call::kReduce, in, out, count, type, op, root});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {Call::kReduceScatter, in, out, count, type, op, -1});
}

const char* ncclGetErrorString(ncclResult_t) {
  return "fake error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "fake detail";
}

// -- the CUDA runtime

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* index) {
  *index = device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int index) {
  if (index < 0 || index >= kDevices) return cudaErrorInvalidDevice;
  device = index;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "fake error";
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  absl::MutexLock lock(&mu);
  return stream->idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return stream != nullptr && event != nullptr ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  absl::MutexLock lock(&mu);
  event->before = stream != nullptr ? *stream : CUstream_st{};
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  absl::MutexLock lock(&mu);
  return event->before.idle() ? cudaSuccess : cudaErrorNotReady;
}

}  // extern "C"
