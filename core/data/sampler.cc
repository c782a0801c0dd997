#include "shardwright/core/data/sampler.h"

#include <bit>

#include "shardwright/core/base/check.h"

namespace shardwright {
namespace {

// Few rounds suffice for large domains; the small ones (a handful of samples) need more to look shuffled.
constexpr int kRounds = 8;

// The finalizer of SplitMix64: every input bit reaches every output bit.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A permutation of [0, 2^(2 * half_bits)): halves are exchanged and mixed, which can be undone whatever the mixing is.
uint64_t Feistel(uint64_t value, int half_bits, uint64_t key) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits;
  uint64_t right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t mixed = left ^ (Mix(right ^ Mix(key + round)) & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits) | right;
}

// Walks the cycle until it is back inside [0, samples): at most four steps on average, since the domain is at most four
// times as large.
int64_t Permute(int64_t index, int64_t samples, uint64_t key) {
  const int bits = std::bit_width(static_cast<uint64_t>(samples - 1));
  const int half_bits = bits < 2 ? 1 : (bits + 1) / 2;
  uint64_t value = static_cast<uint64_t>(index);
  do {
    value = Feistel(value, half_bits, key);
  } while (value >= static_cast<uint64_t>(samples));
  return static_cast<int64_t>(value);
}

}  // namespace

Sampler::Sampler(int64_t samples, uint64_t seed, bool shuffle) : samples_(samples), seed_(seed), shuffle_(shuffle) {
  SW_CHECK(samples > 0);
}

int64_t Sampler::At(int64_t position) const {
  SW_CHECK(position >= 0);
  const int64_t index = position % samples_;
  if (!shuffle_) return index;
  const uint64_t epoch = static_cast<uint64_t>(position / samples_);
  return Permute(index, samples_, Mix(seed_) ^ Mix(~epoch));
}

std::vector<int64_t> Sampler::Slice(int64_t position, int64_t count, int32_t rank, int32_t world_size) const {
  SW_CHECK(world_size > 0 && rank >= 0 && rank < world_size && count >= 0 && count % world_size == 0);
  const int64_t block = count / world_size;
  std::vector<int64_t> indices;
  indices.reserve(block);
  for (int64_t i = 0; i < block; ++i) indices.push_back(At(position + rank * block + i));
  return indices;
}

}  // namespace shardwright
