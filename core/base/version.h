// The released version, as the command line prints it and manifests record it.
#ifndef SHARDWRIGHT_CORE_BASE_VERSION_H_
#define SHARDWRIGHT_CORE_BASE_VERSION_H_

namespace shardwright {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_BASE_VERSION_H_
