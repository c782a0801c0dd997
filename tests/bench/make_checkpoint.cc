// Makes a native checkpoint of many equal tensors, to measure with.
//
//   bazel run //tests/bench:make_checkpoint -- --out=/tmp/many --tensors=100000 --tensor_bytes=16
#include <gflags/gflags.h>

#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardwright/checkpoint.h"

DEFINE_string(out, "", "directory to make");
DEFINE_int64(tensors, 100000, "how many");
DEFINE_int64(tensor_bytes, 16, "bytes of each, a multiple of 4");

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  std::vector<char> content(static_cast<size_t>(FLAGS_tensor_bytes), 1);
  shardwright::LocalState state;
  for (int64_t i = 0; i < FLAGS_tensors; ++i) {
    shardwright::LocalTensor tensor;
    tensor.meta.name = absl::StrFormat("layers.%06d.weight", i);
    tensor.meta.dtype = shardwright::DType::kFloat32;
    tensor.meta.shape = {FLAGS_tensor_bytes / 4};
    tensor.box = shardwright::Box::Whole(tensor.meta.shape);
    tensor.data = content.data();
    state.push_back(std::move(tensor));
  }
  const absl::StatusOr<shardwright::SaveReport> report = shardwright::WriteCheckpoint(FLAGS_out, state, {});
  if (!report.ok()) return std::fprintf(stderr, "%s\n", report.status().ToString().c_str()), 1;
  return 0;
}
