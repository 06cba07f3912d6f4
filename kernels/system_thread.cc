#include "kernels/system_thread.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {

absl::StatusOr<std::thread> StartSystemThread(absl::AnyInvocable<void()> run) {
  try {
    return std::thread([run = std::move(run)]() mutable { run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the system gives this process no further thread: ", error.what()));
  }
}

}  // namespace weir
