#include "kernels/notice.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/printable_text.h"
#include "kernels/nonblocking_output.h"

namespace weir {
namespace {

// How long a reader may take to begin with. A reader that has stopped is not waited for again.
constexpr int kPatienceMilliseconds = 100;

// Without stdio, whose lock a thread may hold that has stopped with the reader.
class NoticeWriter {
 public:
  void Write(absl::string_view line) {
    absl::MutexLock lock(&mutex_);
    if (num_lost_ > 0) {
      const std::string missing =
          absl::StrCat("weir: ", num_lost_, num_lost_ == 1 ? " line is" : " lines are",
                       " missing here: nothing could be written to stderr\n");
      if (!WriteAll(missing)) return Lose();
      num_lost_ = 0;
    }
    if (!WriteAll(line)) Lose();
  }

 private:
  void Lose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { ++num_lost_; }

  // False when it could not be written, or not whole.
  bool WriteAll(absl::string_view text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const NonblockingOutput output(STDERR_FILENO);  // each time: a program may have it lead elsewhere
    while (!text.empty()) {
      // A pipe takes a piece of that size as a whole, between those of others.
      const int64_t count = output.WriteSome(text.substr(0, PIPE_BUF));
      if (count < 0 && errno == EAGAIN ? !IsReadInTime(output.fd()) : count < 0 && errno != EINTR)
        return false;
      text.remove_prefix(std::max<int64_t>(count, 0));
    }
    return true;
  }

  bool IsReadInTime(int fd) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    pollfd room = {.fd = fd, .events = POLLOUT, .revents = 0};
    return poll(&room, 1, num_lost_ > 0 ? 0 : kPatienceMilliseconds) > 0;
  }

  absl::Mutex mutex_;
  int64_t num_lost_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

void PrintNotice(absl::string_view message) {
  static auto& writer = *new NoticeWriter;
  writer.Write(absl::StrCat("weir: ", PrintableText(message), "\n"));
}

}  // namespace weir
