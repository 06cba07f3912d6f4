#include "distributed/launch/child_process.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

extern char** environ;

namespace weir {
namespace {

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

absl::StatusOr<Pipe> OpenPipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::ResourceExhaustedError(absl::StrCat("no pipe: ", strerror(errno)));
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

absl::StatusOr<Pipe> OpenInput() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no socket: ", strerror(errno)));
  }
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// The program sees a terminal as wide as ours; its line ends come through as they are.
absl::StatusOr<Pipe> OpenTerminal() {
  winsize size{};
  const bool has_size = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  termios modes{};
  cfmakeraw(&modes);
  int master = -1;
  int slave = -1;
  if (openpty(&master, &slave, nullptr, &modes, has_size ? &size : nullptr) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no pseudo-terminal: ", strerror(errno)));
  }
  fcntl(master, F_SETFD, FD_CLOEXEC);
  fcntl(slave, F_SETFD, FD_CLOEXEC);
  return Pipe{FileDescriptor(master), FileDescriptor(slave)};
}

std::vector<std::string> MergedEnvironment(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    bool is_replaced = false;
    for (const auto& [added_name, value] : added) is_replaced = is_replaced || added_name == name;
    if (!is_replaced) merged.push_back(text);
  }
  for (const auto& [name, value] : added) merged.push_back(absl::StrCat(name, "=", value));
  return merged;
}

std::vector<char*> PointersTo(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: only async-signal-safe calls.
[[noreturn]] void BecomeProgram(char** argv, char** environment, pid_t parent, int in, int out, int err,
                                int failure_pipe) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the launcher died before prctl
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGXFSZ})
    signal(signal_number, SIG_DFL);
  dup2(in >= 0 ? in : open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  environ = environment;
  execvp(argv[0], argv);
  const int error = errno;
  (void)!write(failure_pipe, &error, sizeof(error));
  _exit(127);
}

absl::Status CannotRun(const std::string& program, int error) {
  const std::string message = absl::StrCat("cannot run '", program, "': ", strerror(error));
  return error == EACCES ? absl::PermissionDeniedError(message) : absl::NotFoundError(message);
}

void SetNonBlocking(const FileDescriptor& fd) {
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const ChildOptions& options) {
  WEIR_ASSIGN_OR_RETURN(Pipe out, options.on_terminal ? OpenTerminal() : OpenPipe());
  Pipe err;
  if (!options.on_terminal) {
    WEIR_ASSIGN_OR_RETURN(err, OpenPipe());
  }
  Pipe in;
  if (options.has_input) {
    WEIR_ASSIGN_OR_RETURN(in, OpenInput());
  }
  WEIR_ASSIGN_OR_RETURN(Pipe failure, OpenPipe());
  std::vector<std::string> command = options.command;
  std::vector<std::string> environment = MergedEnvironment(options.environment);
  const std::vector<char*> argv = PointersTo(command);
  const std::vector<char*> envp = PointersTo(environment);
  const int err_fd = options.on_terminal ? out.write_end.get() : err.write_end.get();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return absl::ResourceExhaustedError(absl::StrCat("cannot start a process: ", strerror(errno)));
  if (pid == 0) {
    BecomeProgram(const_cast<char**>(argv.data()), const_cast<char**>(envp.data()), parent, in.read_end.get(),
                  out.write_end.get(), err_fd, failure.write_end.get());
  }
  setpgid(pid, pid);  // also here, so that the group exists before the first Signal
  ChildProcess child;
  child.pid_ = pid;
  failure.write_end = FileDescriptor();
  int error = 0;
  if (read(failure.read_end.get(), &error, sizeof(error)) == sizeof(error))
    return CannotRun(command[0], error);
  child.input_ = std::move(in.write_end);
  child.output_ = std::move(out.read_end);
  child.error_ = std::move(err.read_end);
  SetNonBlocking(child.output_);
  if (child.error_.is_open()) SetNonBlocking(child.error_);
  return child;
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(reaped_, other.reaped_);
  std::swap(input_, other.input_);
  std::swap(output_, other.output_);
  std::swap(error_, other.error_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0 || reaped_) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::Tell(absl::string_view text) const {
  if (!input_.is_open()) return;
  while (!text.empty()) {
    const ssize_t sent = send(input_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      text.remove_prefix(sent);
    } else if (errno != EINTR) {
      return;
    }
  }
}

void ChildProcess::Signal(int signal) const {
  if (!reaped_) kill(-pid_, signal);
}

void ChildProcess::Abandon() {
  Signal(SIGKILL);
  int wait_status = 0;
  HasEnded(&wait_status);
  reaped_ = true;
}

bool ChildProcess::HasEnded(int* wait_status) {
  // Looked at before it is reaped: until then nobody else can get the number of its group.
  siginfo_t ended{};
  if (reaped_ || waitid(P_PID, pid_, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != pid_)
    return reaped_;
  kill(-pid_, SIGKILL);
  reaped_ = waitpid(pid_, wait_status, WNOHANG) == pid_;
  return reaped_;
}

std::string DescribeExit(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return absl::StrCat("exited with code ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return absl::StrCat("killed by signal ", signal, " (", strsignal(signal), ")");
}

int ExitCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace weir
