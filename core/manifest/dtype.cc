#include "shardwright/core/manifest/dtype.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace shardwright {
namespace {

struct DTypeRow {
  absl::string_view name;
  int64_t item_size;
};

// Indexed by the persisted number.
constexpr DTypeRow kRows[] = {
    {"INVALID", 0}, {"BOOL", 1},    {"U8", 1},      {"I8", 1},  {"U16", 2},         {"I16", 2},         {"U32", 4},
    {"I32", 4},     {"U64", 8},     {"I64", 8},     {"F16", 2}, {"BF16", 2},        {"F32", 4},         {"F64", 8},
    {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"C64", 8}, {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1},
};
constexpr int kRowCount = sizeof(kRows) / sizeof(kRows[0]);
static_assert(kRowCount == static_cast<int>(DType::kFloat8E5M2FNUZ) + 1);

// Indexed by the persisted number above the gap.
constexpr DTypeRow kForeignRows[] = {{"C128", 16}, {"C32", 4}, {"F4_X2", 1}};
constexpr int kForeignBegin = static_cast<int>(DType::kComplex128);
constexpr int kForeignEnd = kForeignBegin + sizeof(kForeignRows) / sizeof(kForeignRows[0]);
static_assert(kForeignEnd == static_cast<int>(DType::kFloat4E2M1x2) + 1);

bool IsForeign(int number) {
  return number >= kForeignBegin && number < kForeignEnd;
}

const DTypeRow& RowOf(DType dtype) {
  const int number = static_cast<int>(dtype);
  if (IsForeign(number)) return kForeignRows[number - kForeignBegin];
  return kRows[IsNativeDType(dtype) ? number : 0];
}

}  // namespace

int64_t ItemSize(DType dtype) {
  return RowOf(dtype).item_size;
}

absl::string_view DTypeName(DType dtype) {
  return RowOf(dtype).name;
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (int number = 1; number < kRowCount; ++number) {
    if (kRows[number].name == name) return static_cast<DType>(number);
  }
  for (int number = kForeignBegin; number < kForeignEnd; ++number) {
    if (kForeignRows[number - kForeignBegin].name == name) return static_cast<DType>(number);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown element type \"", absl::CHexEscape(name.substr(0, 64)), "\""));
}

bool IsKnownDType(int number) {
  return IsForeign(number) || (number > 0 && number < kRowCount);
}

bool IsNativeDType(DType dtype) {
  const int number = static_cast<int>(dtype);
  return number > 0 && number < kRowCount;
}

}  // namespace shardwright
