// Real files of every format with damage: each byte of small ones flipped, cut at each length, and changed at random
// with a seed that is printed. Whatever happens is an answer: the same tensors, others, or a refusal; and nothing is
// allocated that the files' size does not justify.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/format/formats.h"
#include "shardwright/core/format/opened_source.h"
#include "shardwright/core/storage/memory.h"
#include "tests/core/format/fixtures.h"
#include "tests/testing/status_matchers.h"

namespace {

std::atomic<size_t> largest_allocation{0};

}  // namespace

// Sanitizers have allocators of their own, which must not be mixed with these.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

void* Allocate(size_t bytes) {
  size_t seen = largest_allocation.load(std::memory_order_relaxed);
  while (bytes > seen && !largest_allocation.compare_exchange_weak(seen, bytes, std::memory_order_relaxed)) {
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) {
  return Allocate(bytes);
}
void* operator new[](size_t bytes) {
  return Allocate(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
#endif

namespace shardwright {
namespace {

using ::shardwright::testing::FixturePath;

// Windows and scratch of readers, whatever they read.
constexpr size_t kAllowedBytes = 4 << 20;
constexpr int64_t kMaxTensorBytes = 1 << 20;

using Files = std::map<std::string, std::string>;  // by path

struct Sample {
  const char* name;
  const char* path;  // of the fixture
};

constexpr Sample kSamples[] = {
    {"StateDict", "torch_zip/state_dict.bin"},
    {"Objects", "torch_zip/objects.pt"},
    {"Protocol4", "torch_zip/protocol4.pt"},
    {"Quantized", "torch_zip/quantized.pt"},
    {"Deflated", "torch_zip/rezip_deflated.pt"},
    {"LegacyViews", "torch_legacy/legacy_views.pt"},
    {"Lightning", "lightning/weights_only.ckpt"},
    {"ShardedSafetensors", "safetensors/hf_sharded_safetensors"},
    {"DcpPlain", "dcp_plain_w1/ckpt"},
    {"DcpShardedTensor", "dcp_sharded_tensor_w4/ckpt"},
    {"DcpHuggingFace", "dcp_hf_w2/ckpt"},
    {"DeepSpeed0", "deepspeed_z0_bf16_w2/ckpt"},
    {"DeepSpeed1", "deepspeed_z1_fp16_w2/ckpt"},
    {"DeepSpeed3", "deepspeed_z3_bf16_w2/ckpt"},
};

std::string ReadFileBytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

Files LoadSample(const std::string& path) {
  const std::string root = FixturePath(path);
  Files files;
  if (!std::filesystem::is_directory(root)) {
    files["x"] = ReadFileBytes(root);
    return files;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_directory())
      files["x/" + entry.path().lexically_relative(root).string()] = ReadFileBytes(entry.path());
  }
  return files;
}

bool IsAnswer(absl::StatusCode code) {
  return code == absl::StatusCode::kOk || code == absl::StatusCode::kDataLoss ||
         code == absl::StatusCode::kUnimplemented || code == absl::StatusCode::kInvalidArgument ||
         code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kNotFound ||
         code == absl::StatusCode::kFailedPrecondition;
}

// Opens and reads all of it.
absl::Status ReadAll(Storage& storage) {
  SW_ASSIGN_OR_RETURN(const OpenedCheckpoint opened, OpenAnyCheckpoint(storage, "x"));
  const OpenedSource source(storage, opened);
  for (const TensorEntry& entry : opened.manifest->tensors()) {
    if (entry.meta.bytes() > kMaxTensorBytes) continue;
    std::string bytes(static_cast<size_t>(entry.meta.bytes()), '\0');
    SW_RETURN_IF_ERROR(source.Read(entry.meta.name, Box::Whole(entry.meta.shape), absl::MakeSpan(bytes)));
  }
  return VerifyForeignChecksums(storage, opened);
}

class DamageTest : public ::testing::TestWithParam<Sample> {
 protected:
  DamageTest() : files_(LoadSample(GetParam().path)), storage_(MakeMemoryStorage()) {
    for (const auto& [path, bytes] : files_) {
      EXPECT_TRUE(storage_->CreateDirectories(ParentPath(path)).ok());
      EXPECT_TRUE(WriteWholeFile(*storage_, path, bytes).ok());
    }
  }

  // Reads with one file changed, and changes it back.
  void Try(const std::string& path, const std::string& bytes) {
    Replace(path, bytes);
    largest_allocation = 0;
    const absl::Status status = ReadAll(*storage_);
    const size_t largest = largest_allocation;
    EXPECT_TRUE(IsAnswer(status.code())) << status;
    EXPECT_LE(largest, kAllowedBytes) << path << ": " << status;
    Replace(path, files_.at(path));
  }

  void Replace(const std::string& path, const std::string& bytes) {
    ASSERT_TRUE(storage_->RemoveFile(path).ok());
    ASSERT_TRUE(WriteWholeFile(*storage_, path, bytes).ok());
  }

  Files files_;
  std::unique_ptr<Storage> storage_;
};

TEST_P(DamageTest, UndamagedItReads) {
  EXPECT_THAT(ReadAll(*storage_), ::shardwright::testing::IsOk());
}

// About so many positions of a checkpoint are tried, over all its files; and of the ends of files, where headers are,
// as many byte for byte.
constexpr size_t kPositions = 600;

size_t StepOf(const std::string& bytes, size_t files) {
  return std::max<size_t>(1, bytes.size() * files / kPositions);
}

TEST_P(DamageTest, CutAnywhere) {
  for (const auto& [path, bytes] : files_) {
    for (size_t length = 0; length < bytes.size(); length += StepOf(bytes, files_.size()))
      Try(path, bytes.substr(0, length));
  }
}

TEST_P(DamageTest, FlippedAnywhere) {
  const size_t ends = kPositions / 2 / files_.size();
  for (const auto& [path, bytes] : files_) {
    for (size_t at = 0; at < bytes.size();) {
      for (const int flip : {0x01, 0x80, 0xFF}) {
        std::string flipped = bytes;
        flipped[at] = static_cast<char>(flipped[at] ^ flip);
        Try(path, flipped);
      }
      const bool near_end = at < ends || at + ends > bytes.size();
      at += near_end ? 1 : StepOf(bytes, files_.size());
    }
  }
}

TEST_P(DamageTest, ChangedAtRandom) {
  const auto seed = static_cast<uint32_t>(std::random_device()());
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 500; ++i) {
    auto file = files_.begin();
    std::advance(file, random() % files_.size());
    std::string bytes = file->second;
    for (uint32_t change = random() % 4 + 1; change > 0 && !bytes.empty(); --change) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, random() % 8 + 1);
          break;
        case 2:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16));
          break;
        default:
          bytes.replace(at, std::min<size_t>(8, bytes.size() - at), std::min<size_t>(8, bytes.size() - at), '\xFF');
      }
    }
    Try(file->first, bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, DamageTest, ::testing::ValuesIn(kSamples),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace shardwright
