#include "shardwright/core/format/computed/piece_reader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

constexpr uint64_t kWindowBytes = 1024 * 1024;

// Bytes of a file near where they were last asked for.
class Window {
 public:
  explicit Window(const ReadFile& file) : file_(file) {}

  // `length` bytes at `offset`, valid until the next call; `length` is at most kWindowBytes.
  absl::StatusOr<const char*> At(uint64_t offset, uint64_t length, uint64_t ahead) {
    if (offset < begin_ || offset + length > begin_ + bytes_.size()) {
      const uint64_t size = file_.size_bytes();
      if (offset > size || length > size - offset) {
        return absl::DataLossError(absl::StrCat("an element at byte ", offset, " of ", size));
      }
      begin_ = offset;
      bytes_.resize(std::min({std::max(length, ahead), kWindowBytes, size - offset}));
      SW_RETURN_IF_ERROR(file_.ReadAt(begin_, absl::MakeSpan(bytes_)));
    }
    return bytes_.data() + (offset - begin_);
  }

 private:
  const ReadFile& file_;
  uint64_t begin_ = 0;
  std::string bytes_;
};

// Numbers that an element is made of: complex ones are two, each with its own byte order and sign.
int64_t NumberSize(DType dtype) {
  const bool is_complex = dtype == DType::kComplex32 || dtype == DType::kComplex64 || dtype == DType::kComplex128;
  return is_complex ? ItemSize(dtype) / 2 : ItemSize(dtype);
}

bool IsFloating(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64 || NumberSize(dtype) != ItemSize(dtype);
}

// Turns the sign of a little-endian number.
void Negate(char* number, int64_t size, bool floating) {
  if (floating) {
    number[size - 1] = static_cast<char>(number[size - 1] ^ 0x80);
    return;
  }
  int carry = 1;
  for (int64_t i = 0; i < size; ++i) {
    carry += static_cast<uint8_t>(~number[i]);
    number[i] = static_cast<char>(carry);
    carry >>= 8;
  }
}

// What stands between the stored element and its value.
class Fixer {
 public:
  Fixer(const Piece& piece, DType dtype)
      : swap_(piece.big_endian && NumberSize(dtype) > 1),
        conjugate_(piece.conjugate && NumberSize(dtype) != ItemSize(dtype)),
        negative_(piece.negative),
        floating_(IsFloating(dtype)),
        number_(NumberSize(dtype)),
        item_(ItemSize(dtype)) {}

  bool IsNeeded() const { return swap_ || conjugate_ || negative_; }

  void Fix(char* elements, int64_t count) const {
    for (char* element = elements; element < elements + count * item_; element += item_) {
      for (int64_t part = 0; part < item_; part += number_) {
        if (swap_) std::reverse(element + part, element + part + number_);
        const bool turn = negative_ != (conjugate_ && part > 0);
        if (turn) Negate(element + part, number_, floating_);
      }
    }
  }

 private:
  const bool swap_;
  const bool conjugate_;
  const bool negative_;
  const bool floating_;
  const int64_t number_;
  const int64_t item_;
};

// One dimension of the walk.
struct Axis {
  int64_t size = 0;
  int64_t in_stride = 0;   // bytes in the file
  int64_t out_stride = 0;  // bytes in the block
};

// Outermost the greatest stride of the file: addresses then only grow.
std::vector<Axis> SortedAxes(const Piece& piece, const Box& part, const Box& out_box, int64_t item) {
  const std::vector<int64_t> out_stride = DenseStrides(out_box.size);
  std::vector<Axis> axes;
  for (int d = 0; d < part.rank(); ++d) {
    if (part.size[d] != 1) axes.push_back({part.size[d], piece.stride[d] * item, out_stride[d] * item});
  }
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.in_stride > b.in_stride; });
  if (axes.empty()) axes.push_back({1, item, item});
  return axes;
}

class PieceCopy {
 public:
  PieceCopy(const Piece& piece, const ReadFile& file, DType dtype, std::vector<Axis> axes, char* out)
      : window_(file), fixer_(piece, dtype), item_(ItemSize(dtype)), axes_(std::move(axes)), out_(out) {}

  absl::Status Run(int64_t in, int64_t out) {
    std::vector<int64_t> at(axes_.size() - 1, 0);
    while (true) {
      SW_RETURN_IF_ERROR(CopyInner(in, out));
      size_t d = at.size();
      for (; d > 0; --d) {
        const Axis& axis = axes_[d - 1];
        in += axis.in_stride;
        out += axis.out_stride;
        if (++at[d - 1] < axis.size) break;
        in -= axis.size * axis.in_stride;
        out -= axis.size * axis.out_stride;
        at[d - 1] = 0;
      }
      if (d == 0) return absl::OkStatus();
    }
  }

 private:
  absl::Status CopyInner(int64_t in, int64_t out) {
    const Axis& axis = axes_.back();
    const bool dense = axis.in_stride == item_ && axis.out_stride == item_;
    const int64_t most = dense ? static_cast<int64_t>(kWindowBytes) / item_ : 1;
    for (int64_t done = 0; done < axis.size;) {
      const int64_t count = std::min(most, axis.size - done);
      const int64_t begin = in + done * axis.in_stride;
      const uint64_t ahead =
          axes_.size() == 1 ? static_cast<uint64_t>((axis.size - done) * axis.in_stride) : kWindowBytes;
      SW_ASSIGN_OR_RETURN(const char* bytes, window_.At(begin, count * item_, std::max<uint64_t>(ahead, item_)));
      char* target = out_ + out + done * axis.out_stride;
      std::memcpy(target, bytes, count * item_);
      if (fixer_.IsNeeded()) fixer_.Fix(target, count);
      done += count;
    }
    return absl::OkStatus();
  }

  Window window_;
  const Fixer fixer_;
  const int64_t item_;
  const std::vector<Axis> axes_;
  char* const out_;
};

}  // namespace

absl::Status ReadPiece(const Piece& piece, const ReadFile& decoded, DType dtype, const Box& part, const Box& out_box,
                       absl::Span<char> out) {
  if (part.empty()) return absl::OkStatus();
  const int64_t item = ItemSize(dtype);
  int64_t in = piece.first;
  for (int d = 0; d < part.rank(); ++d) in += (part.offset[d] - piece.box.offset[d]) * piece.stride[d];
  PieceCopy copy(piece, decoded, dtype, SortedAxes(piece, part, out_box, item), out.data());
  return copy.Run(in * item, FirstElement(out_box, part) * item);
}

}  // namespace shardwright
