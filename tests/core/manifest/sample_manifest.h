// A small manifest that has something of everything: two files, sharded and whole tensors, a scalar, an empty tensor,
// an alias, optimizer state, and extras of every type.
#ifndef SHARDWRIGHT_TESTS_CORE_MANIFEST_SAMPLE_MANIFEST_H_
#define SHARDWRIGHT_TESTS_CORE_MANIFEST_SAMPLE_MANIFEST_H_

#include "shardwright/core/manifest/manifest.h"

namespace shardwright::testing {

ManifestData SampleManifestData();

// The tensor of that name; it must exist.
TensorEntry& TensorOf(ManifestData& data, absl::string_view name);

// `count` one-box tensors of four floats each, in one file.
ManifestData ManyTensors(int count);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_CORE_MANIFEST_SAMPLE_MANIFEST_H_
