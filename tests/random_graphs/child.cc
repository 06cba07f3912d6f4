#include "tests/random_graphs/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace weir::random_graphs {
namespace {

void WriteAll(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(fd, text.data() + at, text.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

std::string ReadAll(int fd) {
  std::string text;
  char piece[4096];
  for (ssize_t count; (count = read(fd, piece, sizeof(piece))) > 0;) text.append(piece, count);
  return text;
}

}  // namespace

absl::StatusOr<std::string> RunInChild(absl::Duration limit, const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return absl::ErrnoToStatus(errno, "pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child == 0) {
    close(ends[0]);
    std::signal(SIGALRM, SIG_DFL);
    alarm(static_cast<unsigned>(absl::ToInt64Seconds(absl::Ceil(limit, absl::Seconds(1)))));
    WriteAll(ends[1], work());
    _exit(0);  // without destructors: threads of the work may still run
  }
  close(ends[1]);
  std::string text = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return absl::DeadlineExceededError(absl::StrCat("busy for ", absl::FormatDuration(limit)));
  if (WIFSIGNALED(status)) return absl::AbortedError(absl::StrCat("crashed: ", strsignal(WTERMSIG(status))));
  return absl::AbortedError(absl::StrCat("exited with code ", WEXITSTATUS(status)));
}

}  // namespace weir::random_graphs
