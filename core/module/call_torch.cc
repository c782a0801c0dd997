#include "shardwright/core/module/call_torch.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace shardwright {
namespace {

class StatusException : public std::exception {
 public:
  explicit StatusException(absl::Status status) : status_(std::move(status)), text_(status_.ToString()) {}
  const absl::Status& status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  absl::Status status_;
  std::string text_;
};

absl::string_view FirstLine(absl::string_view text) {
  return text.substr(0, text.find('\n'));
}

absl::StatusCode CodeOf(const c10::Error& error, absl::string_view message) {
  // The host allocator throws a plain Error.
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      absl::StrContains(message, "can't allocate memory")) {
    return absl::StatusCode::kResourceExhausted;
  }
  const bool bad_argument = dynamic_cast<const c10::IndexError*>(&error) != nullptr ||
                            dynamic_cast<const c10::TypeError*>(&error) != nullptr ||
                            dynamic_cast<const c10::ValueError*>(&error) != nullptr;
  if (bad_argument) return absl::StatusCode::kInvalidArgument;
  if (dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr) return absl::StatusCode::kUnimplemented;
  return absl::StatusCode::kInternal;
}

}  // namespace

void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) throw StatusException(status);
}

absl::Status internal::StatusOfCurrentException() {
  try {
    throw;
  } catch (const StatusException& error) {
    return error.status();
  } catch (const c10::Error& error) {
    const absl::string_view message = FirstLine(error.what_without_backtrace());
    return absl::Status(CodeOf(error, message), message);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(FirstLine(error.what()));
  } catch (...) {
    return absl::InternalError("an exception that is no std::exception");
  }
}

}  // namespace shardwright
