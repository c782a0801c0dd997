#include "shardwright/core/format/bytes/zstd_bytes.h"

#include <zstd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {

absl::StatusOr<std::string> DecompressZstd(const ReadFile& file, uint64_t max_bytes) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(), &ZSTD_freeDStream);
  if (stream == nullptr) return absl::ResourceExhaustedError("decompressing: zstd has no memory");
  std::string in(ZSTD_DStreamInSize(), '\0');
  std::string piece(ZSTD_DStreamOutSize(), '\0');
  std::string out;
  size_t hint = 1;  // 0 at the end of a frame
  for (uint64_t begin = 0; begin < file.size_bytes();) {
    const size_t length = std::min<uint64_t>(in.size(), file.size_bytes() - begin);
    SW_RETURN_IF_ERROR(file.ReadAt(begin, absl::MakeSpan(&in[0], length)));
    begin += length;
    ZSTD_inBuffer input = {in.data(), length, 0};
    ZSTD_outBuffer output = {};
    // A full output may mean that more waits inside.
    while (input.pos < input.size || (hint != 0 && output.pos == piece.size())) {
      output = {piece.data(), piece.size(), 0};
      hint = ZSTD_decompressStream(stream.get(), &output, &input);
      if (ZSTD_isError(hint) != 0) {
        return absl::DataLossError(absl::StrCat("zstd data are damaged: ", ZSTD_getErrorName(hint)));
      }
      if (output.pos > max_bytes - out.size()) {
        return absl::ResourceExhaustedError(absl::StrCat("zstd data give more than ", max_bytes, " bytes"));
      }
      out.append(piece, 0, output.pos);
    }
  }
  if (hint != 0) return absl::DataLossError(absl::StrCat("zstd data are cut after ", out.size(), " bytes"));
  return out;
}

}  // namespace shardwright
