// The rules that every manifest keeps, whoever made it. Part of the library of manifest.h.
#ifndef SHARDWRIGHT_CORE_MANIFEST_VALIDATE_H_
#define SHARDWRIGHT_CORE_MANIFEST_VALIDATE_H_

#include "absl/status/status.h"
#include "shardwright/core/manifest/manifest.h"

namespace shardwright {

// As Manifest::Create says. `data.tensors` must be sorted by name.
absl::Status ValidateManifest(const ManifestData& data, ManifestKind kind);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MANIFEST_VALIDATE_H_
