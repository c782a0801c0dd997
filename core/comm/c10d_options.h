// How ranks meet and how long they wait for each other. Free of torch.
#ifndef SHARDWRIGHT_CORE_COMM_C10D_OPTIONS_H_
#define SHARDWRIGHT_CORE_COMM_C10D_OPTIONS_H_

#include "absl/time/time.h"
#include "shardwright/core/device/device.h"

namespace shardwright {

struct C10dOptions {
  // Where the tensors are that the data group is given: on the CPU they go over Gloo, on a GPU over NCCL.
  Device data_device = {};
  absl::Duration timeout = absl::Minutes(10);  // of every collective, and of the rendezvous
  absl::Duration grace = absl::Seconds(5);  // how long survivors wait for each other's word before naming the missing
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_C10D_OPTIONS_H_
