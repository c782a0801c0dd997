// Integers as they lie in files, whatever the machine's order.
#ifndef SHARDWRIGHT_CORE_MANIFEST_LITTLE_ENDIAN_H_
#define SHARDWRIGHT_CORE_MANIFEST_LITTLE_ENDIAN_H_

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace shardwright {

// `bytes` holds at least sizeof(T).
template <std::unsigned_integral T>
T LoadLittleEndian(const char* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

template <std::unsigned_integral T>
void StoreLittleEndian(T value, char* bytes) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
}

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MANIFEST_LITTLE_ENDIAN_H_
