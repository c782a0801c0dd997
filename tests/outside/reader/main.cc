// Lists a checkpoint's tensors and reads the first row of one, as a program outside the project does.
#include <cstdio>
#include <string>
#include <vector>

#include "shardwright/checkpoint.h"

namespace {

using shardwright::Box;
using shardwright::Checkpoint;
using shardwright::TensorEntry;

// The first index of the first dimension, everything of the others.
Box FirstRow(const std::vector<int64_t>& shape) {
  Box row = Box::Whole(shape);
  if (!row.size.empty()) row.size[0] = 1;
  return row;
}

absl::Status PrintFirstRow(const Checkpoint& checkpoint, const TensorEntry& entry) {
  const Box row = FirstRow(entry.meta.shape);
  std::vector<char> bytes(entry.meta.bytes() / Box::Whole(entry.meta.shape).elements() * row.elements());
  SW_RETURN_IF_ERROR(checkpoint.Read(entry.meta.name, row, absl::MakeSpan(bytes))) << "reading the first row";
  std::printf("first row of %s: %zu bytes, the first is %02x\n", entry.meta.name.c_str(), bytes.size(),
              static_cast<unsigned char>(bytes[0]));
  return absl::OkStatus();
}

absl::Status Run(absl::string_view path) {
  SW_ASSIGN_OR_RETURN(auto checkpoint, shardwright::OpenCheckpoint(path));
  const std::vector<TensorEntry>& tensors = checkpoint->manifest().tensors();
  std::printf("%zu tensors at step %lld\n", tensors.size(),
              static_cast<long long>(checkpoint->manifest().data().progress.step));
  for (const TensorEntry& entry : tensors) {
    if (entry.meta.bytes() > 0) return PrintFirstRow(*checkpoint, entry);
  }
  return absl::NotFoundError("no tensor with elements in it");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CHECKPOINT\n", argv[0]);
    return 2;
  }
  const absl::Status status = Run(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
