// Sampler: the deterministic order of samples. Position is counted in samples seen by the whole run, so it means the
// same at every world size: sample p of the run is permutation(epoch = p / n)[p % n].
#ifndef SHARDWRIGHT_CORE_DATA_SAMPLER_H_
#define SHARDWRIGHT_CORE_DATA_SAMPLER_H_

#include <cstdint>
#include <vector>

namespace shardwright {

// Pure; thread-safe. Needs no memory per sample: the permutation is a keyed Feistel network with cycle walking
// (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
class Sampler {
 public:
  // `samples` > 0.
  Sampler(int64_t samples, uint64_t seed, bool shuffle = true);

  int64_t samples() const { return samples_; }
  // The data index of run position `position`.
  int64_t At(int64_t position) const;
  // Data indices of one rank for the micro-batch that starts at `position` and has `count` samples over all ranks
  // (count divisible by world_size): consecutive blocks by rank.
  std::vector<int64_t> Slice(int64_t position, int64_t count, int32_t rank, int32_t world_size) const;

 private:
  int64_t samples_;
  uint64_t seed_;
  bool shuffle_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_DATA_SAMPLER_H_
