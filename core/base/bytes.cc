#include "shardwright/core/base/bytes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shardwright {
namespace {

struct Unit {
  const char* name;
  uint64_t bytes;
};

constexpr std::array<Unit, 9> kUnits = {{{"B", 1},
                                         {"kB", 1000},
                                         {"MB", 1000 * 1000},
                                         {"GB", 1000 * 1000 * 1000},
                                         {"TB", 1000ull * 1000 * 1000 * 1000},
                                         {"KiB", 1ull << 10},
                                         {"MiB", 1ull << 20},
                                         {"GiB", 1ull << 30},
                                         {"TiB", 1ull << 40}}};
// More digits of a fraction than this change no byte count.
constexpr size_t kMaxFractionDigits = 18;

std::optional<uint64_t> UnitBytes(absl::string_view name) {
  if (name.empty()) return 1;
  for (const Unit& unit : kUnits) {
    if (absl::EqualsIgnoreCase(name, unit.name)) return unit.bytes;
  }
  return std::nullopt;
}

// Cuts the leading digits off `text`.
absl::string_view TakeDigits(absl::string_view& text) {
  const size_t count = std::find_if_not(text.begin(), text.end(), absl::ascii_isdigit) - text.begin();
  const absl::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

// nullopt if the digits make a number beyond 64 bits.
std::optional<uint64_t> DigitsToNumber(absl::string_view digits) {
  uint64_t number = 0;
  for (const char digit : digits) {
    if (__builtin_mul_overflow(number, uint64_t{10}, &number)) return std::nullopt;
    if (__builtin_add_overflow(number, static_cast<uint64_t>(digit - '0'), &number)) return std::nullopt;
  }
  return number;
}

absl::Status NotUnderstood(absl::string_view text, absl::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("byte count \"", text, "\" ", reason,
                   "; write for example 1048576, \"64 MB\" or \"1.5GiB\" (units: B, kB, MB, "
                   "GB, TB, KiB, MiB, GiB, TiB)"));
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  const absl::string_view whole_digits = TakeDigits(rest);
  absl::string_view fraction_digits;
  if (!rest.empty() && rest[0] == '.') {
    rest.remove_prefix(1);
    fraction_digits = TakeDigits(rest);
    if (fraction_digits.empty()) return NotUnderstood(text, "has no digits after its point");
  }
  if (whole_digits.empty()) return NotUnderstood(text, "does not start with a number");
  const std::optional<uint64_t> unit = UnitBytes(absl::StripLeadingAsciiWhitespace(rest));
  if (!unit.has_value()) return NotUnderstood(text, absl::StrCat("has the unknown unit \"", rest, "\""));
  if (*unit == 1 && !fraction_digits.empty()) return NotUnderstood(text, "is not a whole number of bytes");

  const std::optional<uint64_t> whole = DigitsToNumber(whole_digits);
  if (!whole.has_value()) return NotUnderstood(text, "is too large");
  // In 128 bits nothing below overflows: 2^64 * 2^40, and 10^18 * 2^40.
  unsigned __int128 fraction = 0;
  unsigned __int128 scale = 1;
  for (const char digit : fraction_digits.substr(0, kMaxFractionDigits)) {
    fraction = fraction * 10 + static_cast<unsigned>(digit - '0');
    scale *= 10;
  }
  const unsigned __int128 bytes = static_cast<unsigned __int128>(*whole) * *unit + fraction * *unit / scale;
  if (bytes > std::numeric_limits<uint64_t>::max()) return NotUnderstood(text, "is too large");
  return static_cast<uint64_t>(bytes);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  constexpr std::array<const char*, 6> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.5 would be printed as 1024.
  while (value >= 1023.5 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, value, kNames[unit]);
}

}  // namespace shardwright
