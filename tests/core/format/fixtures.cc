#include "tests/core/format/fixtures.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <fstream>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "shardwright/core/format/opened_source.h"

namespace shardwright::testing {
namespace {

constexpr uint64_t kMaxTensorBytes = 1 << 20;

std::string PathElement(const nlohmann::json& element) {
  return element.is_string() ? element.get<std::string>() : element.dump();
}

std::vector<ExpectedTensor> ParseTensors(const nlohmann::json& list) {
  std::vector<ExpectedTensor> tensors;
  for (const nlohmann::json& row : list) {
    ExpectedTensor& tensor = tensors.emplace_back();
    for (const nlohmann::json& element : row["path"]) tensor.path.push_back(PathElement(element));
    tensor.dtype = row["dtype"];
    if (row["shape"].is_array()) tensor.shape = row["shape"].get<Shape>();
    tensor.sha256 = row.value("sha256", "");
  }
  return tensors;
}

constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void Compress(const uint8_t* block, std::array<uint32_t, 8>& state) {
  std::array<uint32_t, 64> w;
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 |
           block[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  std::array<uint32_t, 8> s = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    const uint32_t t1 = s[7] + s1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRounds[i] + w[i];
    const uint32_t s0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    const uint32_t t2 = s0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (int i = 0; i < 8; ++i) state[i] += s[i];
}

}  // namespace

std::string Sha256(absl::string_view bytes) {
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string padded(bytes);
  padded.push_back('\x80');
  while (padded.size() % 64 != 56) padded.push_back('\0');
  for (int i = 7; i >= 0; --i) padded.push_back(static_cast<char>(uint64_t{bytes.size()} * 8 >> (8 * i)));
  for (size_t at = 0; at < padded.size(); at += 64) Compress(reinterpret_cast<const uint8_t*>(&padded[at]), state);
  std::string text;
  for (const uint32_t word : state) absl::StrAppendFormat(&text, "%08x", word);
  return text;
}

std::string FixturePath(absl::string_view group, absl::string_view file) {
  const std::string folder = absl::StrCat("tests/core/format/testdata/fixtures/", group);
  return file.empty() || file == "." ? folder : absl::StrCat(folder, "/", file);
}

std::vector<FixtureItem> ReadFixtures(absl::string_view group) {
  std::ifstream file(FixturePath(group, "expected.json"));
  EXPECT_TRUE(file.good()) << std::string(group);
  const nlohmann::json json = nlohmann::json::parse(file);
  std::vector<FixtureItem> items;
  for (const nlohmann::json& row : json["items"]) {
    FixtureItem& item = items.emplace_back();
    item.file = row["file"];
    item.must = row["must"];
    if (row.contains("tensors")) item.tensors = ParseTensors(row["tensors"]);
    if (row.contains("optim")) item.optimizer = ParseTensors(row["optim"]);
  }
  return items;
}

FixtureItem FindFixture(absl::string_view group, absl::string_view file) {
  for (const FixtureItem& item : ReadFixtures(group)) {
    if (item.file == file) return item;
  }
  ADD_FAILURE() << "no fixture " << std::string(group) << "/" << std::string(file);
  return {};
}

void PrintTo(const TensorFacts& facts, std::ostream* os) {
  *os << DTypeName(facts.dtype) << ShapeToString(facts.shape) << " " << facts.sha256.substr(0, 8);
}

std::map<std::string, TensorFacts> ReadAllTensors(Storage& storage, const OpenedCheckpoint& opened) {
  std::map<std::string, TensorFacts> all;
  const OpenedSource source(storage, opened);
  for (const TensorEntry& entry : opened.manifest->tensors()) {
    const Box whole = Box::Whole(entry.meta.shape);
    if (static_cast<uint64_t>(entry.meta.bytes()) > kMaxTensorBytes) continue;
    std::string bytes(static_cast<size_t>(entry.meta.bytes()), '\xAA');
    const absl::Status status = source.Read(entry.meta.name, whole, absl::MakeSpan(bytes));
    EXPECT_TRUE(status.ok()) << status;
    all[entry.meta.name] = {entry.meta.dtype, entry.meta.shape, Sha256(bytes)};
    // The same in slabs along the last dimension, which no layout favours.
    std::string again(bytes.size(), '\x55');
    const int last = whole.rank() - 1;
    for (int64_t at = 0; last >= 0 && at < whole.size[last]; at += 3) {
      Box slab = whole;
      slab.offset[last] = at;
      slab.size[last] = std::min<int64_t>(3, whole.size[last] - at);
      std::string part(static_cast<size_t>(entry.meta.BytesOf(slab)), '\0');
      const absl::Status read = source.Read(entry.meta.name, slab, absl::MakeSpan(part));
      EXPECT_TRUE(read.ok()) << read;
      CopyBox(part.data(), slab, again.data(), whole, slab, ItemSize(entry.meta.dtype));
    }
    if (last >= 0) {
      EXPECT_EQ(again, bytes) << entry.meta.name;
    }
  }
  return all;
}

}  // namespace shardwright::testing
