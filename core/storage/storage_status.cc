#include "shardwright/core/storage/storage_status.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace shardwright {
namespace {

absl::StatusCode CodeOf(int error_number) {
  switch (error_number) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMLINK:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOLCK:
      return absl::StatusCode::kResourceExhausted;
    case ENOTEMPTY:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case EXDEV:
    case ETXTBSY:
    case EBADF:
    case ENODEV:
    case ENXIO:
    case ESPIPE:
      return absl::StatusCode::kFailedPrecondition;
    case ENAMETOOLONG:
    case EINVAL:
    case EILSEQ:
    case EOVERFLOW:
      return absl::StatusCode::kInvalidArgument;
    case EOPNOTSUPP:
    case ENOSYS:
      return absl::StatusCode::kUnimplemented;
    default:  // EIO, ESTALE, EBUSY, a lost server: trying again may help, other arguments do not.
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

absl::Status ErrnoStatus(absl::string_view operation, absl::string_view path, int error_number,
                         absl::string_view detail) {
  const std::string reason = std::generic_category().message(error_number);
  return absl::Status(CodeOf(error_number), absl::StrCat(operation, " ", path, ": ", reason,
                                                         detail.empty() ? "" : absl::StrCat(" (", detail, ")")));
}

absl::Status EndOfFileStatus(absl::string_view path, uint64_t offset_bytes, uint64_t expected_bytes,
                             uint64_t got_bytes) {
  return absl::DataLossError(absl::StrCat("read ", path, ": the file ends too early: expected ", expected_bytes,
                                          " bytes at offset ", offset_bytes, ", got ", got_bytes));
}

absl::Status LockHeldStatus(absl::string_view path, absl::string_view holder) {
  // The text comes from a file: nothing in it may reach a terminal raw.
  const std::string text = absl::Utf8SafeCEscape(absl::StripAsciiWhitespace(holder.substr(0, kMaxHolderBytes)));
  return absl::UnavailableError(
      absl::StrCat("lock ", path, ": held by ", text.empty() ? "a holder that left no name" : text));
}

}  // namespace shardwright
