#include "shardwright/core/strategy/replicas.h"

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {

absl::Status BroadcastFromRank0(Communicator& comm, const HeldTensor& held) {
  if (held.box.empty()) return absl::OkStatus();
  // As bytes, so that every dtype can be sent.
  const absl::Status sent = comm.Broadcast(held.tensor.mutable_data_ptr(), static_cast<int64_t>(held.tensor.nbytes()),
                                           DType::kUInt8, /*root=*/0);
  return Annotate(sent, absl::StrCat("sending \"", held.meta.name, "\" from rank 0"));
}

absl::Status BroadcastBuffers(Communicator& comm, const std::vector<HeldTensor>& held) {
  for (const HeldTensor& tensor : held) {
    if (tensor.meta.role != Role::kBuffer || !tensor.alias_of.empty()) continue;
    SW_RETURN_IF_ERROR(BroadcastFromRank0(comm, tensor));
  }
  return absl::OkStatus();
}

}  // namespace shardwright
