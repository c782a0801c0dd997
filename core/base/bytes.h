// Parses and prints byte counts: "2GiB", "64 MB", "1.5 GiB".
#ifndef SHARDWRIGHT_CORE_BASE_BYTES_H_
#define SHARDWRIGHT_CORE_BASE_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shardwright {

// Decimal (kB MB GB TB) and binary (KiB MiB GiB TiB) units, with fractions; a bare number is bytes.
// kInvalidArgument for anything else, negatives and overflow, with an example of what is understood.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// Binary units, three significant digits: "0 B", "512 B", "1.50 KiB", "27.0 GiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_BASE_BYTES_H_
