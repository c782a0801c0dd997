#include "shardwright/cli/common_flags.h"

#include <gflags/gflags.h>

DEFINE_bool(json, false, "print one JSON document (its \"schema\" field names its version)");
DEFINE_bool(quiet, false, "print results and errors only");
DEFINE_string(check, "full", "how much of what is read is checked: full (every checksum), quick (structure), off");
DEFINE_string(
    device, "auto",
    "where tensors are: cpu; cuda, each rank on a GPU of its own; cuda:N; auto takes cuda where this program is "
    "built for it and every rank of the machine can have a GPU, else cpu");
DEFINE_uint64(seed, 1, "seed of every random choice");
