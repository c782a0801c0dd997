// Reads boxes of pieces.
#ifndef SHARDWRIGHT_CORE_FORMAT_COMPUTED_PIECE_READER_H_
#define SHARDWRIGHT_CORE_FORMAT_COMPUTED_PIECE_READER_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardwright/core/format/computed/piece.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright {

// Copies `part`, which lies within piece.box, from the decoded bytes into the dense block `out` of `out_box`, which
// contains it. Elements are visited in the order in which they lie, through a window of 1 MiB: of a tensor that does
// not overlap itself every byte is read once, in order.
absl::Status ReadPiece(const Piece& piece, const ReadFile& decoded, DType dtype, const Box& part, const Box& out_box,
                       absl::Span<char> out);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_COMPUTED_PIECE_READER_H_
