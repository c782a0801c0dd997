// Bytes <-> Manifest. The only code that sees the protobuf.
//
// A manifest file is the serialised CheckpointManifest framed as docs/format.md says: magic, version, length and CRC32C
// before the message, so that a flipped bit or a cut is told apart from a newer version.
#ifndef SHARDWRIGHT_CORE_MANIFEST_CODEC_H_
#define SHARDWRIGHT_CORE_MANIFEST_CODEC_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardwright/core/manifest/manifest.h"

namespace shardwright {

// Deterministic: equal data give equal bytes. kInvalidArgument if a message would exceed 2 GiB - 1, and for a format
// version that is not kFormatVersion: of a newer manifest, what this code does not know would be lost; and for
// manifests of foreign checkpoints.
absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest);

// kDataLoss for damaged bytes; kUnimplemented naming both versions if min_reader_version is newer than this reader.
// Fields unknown to this reader are ignored. Allocates in proportion to the bytes given, never on a number's word.
absl::StatusOr<std::shared_ptr<const Manifest>> DecodeManifest(absl::Span<const char> bytes);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MANIFEST_CODEC_H_
