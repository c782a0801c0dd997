// Real checkpoint files of other systems, and what is expected of reading them (testdata/README.md).
#ifndef SHARDWRIGHT_TESTS_CORE_FORMAT_FIXTURES_H_
#define SHARDWRIGHT_TESTS_CORE_FORMAT_FIXTURES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "shardwright/core/format/format.h"
#include "shardwright/core/manifest/box.h"
#include "shardwright/core/manifest/dtype.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright::testing {

struct ExpectedTensor {
  std::vector<std::string> path;
  std::string dtype;  // torch's name
  Shape shape;
  std::string sha256;  // empty: not a tensor with bytes of its own (sparse, meta, nested)
};

struct FixtureItem {
  std::string file;
  std::string must;
  std::vector<ExpectedTensor> tensors;
  std::vector<ExpectedTensor> optimizer;
};

// Path of a file among the fixtures.
std::string FixturePath(absl::string_view group, absl::string_view file = "");
std::vector<FixtureItem> ReadFixtures(absl::string_view group);
// The one of that file name; fails the test if there is none.
FixtureItem FindFixture(absl::string_view group, absl::string_view file);

// What a tensor is, bytes included.
struct TensorFacts {
  DType dtype = DType::kInvalid;
  Shape shape;
  std::string sha256;
  friend bool operator==(const TensorFacts&, const TensorFacts&) = default;
};
void PrintTo(const TensorFacts& facts, std::ostream* os);

// Reads every tensor whole, in pieces of odd sizes too, and compares both.
std::map<std::string, TensorFacts> ReadAllTensors(Storage& storage, const OpenedCheckpoint& opened);

std::string Sha256(absl::string_view bytes);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_CORE_FORMAT_FIXTURES_H_
