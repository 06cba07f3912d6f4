#include "distributed/keys/key_files.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "distributed/keys/certificate.h"
#include "distributed/keys/revocation_list.h"
#include "distributed/security.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/directory_lock.h"
#include "kernels/formats/file_system.h"

namespace weir {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr size_t kMaxNameBytes = 64;                   // of the name in a certificate (X.520)
constexpr absl::Duration kClockSkew = absl::Hours(1);  // hosts whose clocks are behind must accept it, too
constexpr absl::Duration kWaitForOther = absl::Seconds(30);
constexpr mode_t kPrivate = 0600, kPublic = 0644, kPrivateFolder = 0700;

// Also the name of a folder, so nothing with a slash or a leading dot.
absl::Status CheckHost(const std::string& host) {
  in6_addr ipv6;
  if (inet_pton(AF_INET6, host.c_str(), &ipv6) == 1) return absl::OkStatus();
  const bool is_usable = !host.empty() && host.size() <= kMaxNameBytes && host[0] != '.' && host[0] != '-' &&
                         std::all_of(host.begin(), host.end(), [](char c) {
                           return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
                         });
  if (is_usable) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CEscape(host), "' is no host: a name of at most ", kMaxNameBytes,
                   " letters, digits, '-', '_' and '.', or an address; without a port"));
}

std::string FolderOf(const TaskName& task) { return absl::StrCat(task.job, "-", task.index); }

absl::Status CheckOptions(const KeyFilesOptions& options) {
  if (options.directory.empty()) return absl::InvalidArgumentError("no folder for the keys is named (--dir)");
  const size_t count = options.hosts.size() + options.tasks.size();
  if (count == 0 || count > kMaxKeyHosts) {
    return absl::InvalidArgumentError(
        absl::StrCat("keys are for 1 to ", kMaxKeyHosts, " hosts and tasks, got ", count));
  }
  if (options.num_days < 1 || options.num_days > kMaxKeyDays) {
    return absl::InvalidArgumentError(
        absl::StrCat("certificates are valid for 1 to ", kMaxKeyDays, " days, got ", options.num_days));
  }
  std::set<std::string> seen;
  for (const std::string& host : options.hosts) {
    WEIR_RETURN_IF_ERROR(CheckHost(host));
    static constexpr absl::string_view kFiles[] = {"token", "ca.pem", "ca.key", "revoked.pem"};
    const bool is_file = std::find(std::begin(kFiles), std::end(kFiles), host) != std::end(kFiles);
    if (is_file || !seen.insert(host).second) {
      return absl::InvalidArgumentError(absl::StrCat("the host '", host, "' is named twice, or like a file"));
    }
  }
  for (const auto& [task, host] : options.tasks) {
    WEIR_RETURN_IF_ERROR(CheckHost(host));
    const std::string folder = FolderOf(task);
    // Certificates compare names without case, and a job is a part of one.
    const bool is_name = std::all_of(task.job.begin(), task.job.end(), [](char c) {
      return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
    });
    if (!is_name || task.job.empty() || folder.size() > kMaxNameBytes || !seen.insert(folder).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the task '", absl::CEscape(task.ToString()),
                       "' cannot be named in a certificate: a job is lower-case "
                       "letters, digits and '_', and no host has its name"));
    }
  }
  return absl::OkStatus();
}

// Others could read the keys in a folder of theirs, or exchange them.
absl::Status CheckFolder(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at ", path));
  }
  const bool is_folder = S_ISDIR(found.st_mode);
  if (is_folder && found.st_uid == geteuid() && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s is %s of the user %d with mode %04o: keys are written only into a folder of yours (user %d) that "
      "nobody else may write to, and not through a symbolic link",
      path,
      is_folder                ? "a folder"
      : S_ISLNK(found.st_mode) ? "a symbolic link"
                               : "no folder but a file",
      found.st_uid, found.st_mode & 07777, geteuid()));
}

// The files and folders that a run has made. They go when it fails: keys are never overwritten, so nobody
// could try again beside the half of them.
class MadeFiles {
 public:
  MadeFiles() = default;
  MadeFiles(const MadeFiles&) = delete;
  MadeFiles& operator=(const MadeFiles&) = delete;
  ~MadeFiles() {
    for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) std::remove(path->c_str());
  }
  void Add(const std::string& path) { paths_.push_back(path); }
  void Keep() { paths_.clear(); }

 private:
  std::vector<std::string> paths_;
};

absl::Status MakeFolder(const std::string& path, MadeFiles& made) {
  if (mkdir(path.c_str(), kPrivateFolder) == 0) {
    made.Add(path);
    return absl::OkStatus();
  }
  if (errno == EEXIST) return CheckFolder(path);
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot create the folder ", path));
}

// A full disk may take a part before it reports an error.
absl::Status WriteAll(int fd, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
    if (written == 0) return absl::DataLossError(absl::StrCat("cannot write ", path, ": nothing is taken"));
    content.remove_prefix(written);
  }
  if (fsync(fd) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
}

// The permissions are there from the first byte on.
absl::Status WriteNewFile(const std::string& path, const std::string& content, mode_t mode, MadeFiles& made) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) {
    if (errno == EEXIST) {
      return absl::AlreadyExistsError(absl::StrCat(
          path,
          " is there already: keys are never overwritten, and no host or task is added to them later; "
          "make all keys of the job in another folder, and start the job again with these"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  }
  made.Add(path);
  fchmod(fd, mode);  // whatever umask says
  absl::Status status = WriteAll(fd, content, path);
  close(fd);
  return status;
}

absl::StatusOr<std::string> MakeToken() {
  std::string bytes(kTokenBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1) {
    return absl::InternalError("OpenSSL has no random numbers for a token");
  }
  return absl::StrCat(absl::BytesToHexString(bytes), "\n");
}

struct HostFiles {
  std::string certificate, key, authority, token;
};

absl::Status WriteHostFiles(const std::string& folder, const HostFiles& files, MadeFiles& made) {
  WEIR_RETURN_IF_ERROR(MakeFolder(folder, made));
  WEIR_RETURN_IF_ERROR(WriteNewFile(JoinPath(folder, "key.pem"), files.key, kPrivate, made));
  WEIR_RETURN_IF_ERROR(WriteNewFile(JoinPath(folder, "cert.pem"), files.certificate, kPublic, made));
  WEIR_RETURN_IF_ERROR(WriteNewFile(JoinPath(folder, "ca.pem"), files.authority, kPublic, made));
  return WriteNewFile(JoinPath(folder, "token"), files.token, kPrivate, made);
}

}  // namespace

absl::Status MakeKeyFiles(const KeyFilesOptions& options) {
  WEIR_RETURN_IF_ERROR(CheckOptions(options));
  std::string directory = options.directory;
  // To lstat "link/" is no link.
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  const absl::Time begin = absl::Now() - kClockSkew;
  const absl::Time end = absl::Now() + absl::Hours(24) * options.num_days;
  WEIR_ASSIGN_OR_RETURN(const Certificate authority, MakeAuthority("weir job CA", begin, end));
  HostFiles files;
  WEIR_ASSIGN_OR_RETURN(files.authority, authority.CertificatePem());
  WEIR_ASSIGN_OR_RETURN(files.token, MakeToken());
  WEIR_ASSIGN_OR_RETURN(const std::string authority_key, authority.KeyPem());

  WEIR_RETURN_IF_ERROR(PosixFileSystem().CreateDirectories(DirectoryOf(directory)));
  MadeFiles made;
  WEIR_RETURN_IF_ERROR(MakeFolder(directory, made));
  // First, so that a folder that has keys already is left as it is.
  WEIR_RETURN_IF_ERROR(WriteNewFile(JoinPath(directory, "ca.key"), authority_key, kPrivate, made));
  WEIR_RETURN_IF_ERROR(WriteNewFile(JoinPath(directory, "ca.pem"), files.authority, kPublic, made));
  WEIR_RETURN_IF_ERROR(WriteNewFile(JoinPath(directory, "token"), files.token, kPrivate, made));
  const auto write = [&](const std::string& folder, const std::string& host,
                         const std::string& other_name) -> absl::Status {
    WEIR_ASSIGN_OR_RETURN(const Certificate certificate,
                          MakeHostCertificate(host, authority, begin, end, other_name));
    WEIR_ASSIGN_OR_RETURN(files.certificate, certificate.CertificatePem());
    WEIR_ASSIGN_OR_RETURN(files.key, certificate.KeyPem());
    return WriteHostFiles(JoinPath(directory, folder), files, made);
  };
  for (const std::string& host : options.hosts) WEIR_RETURN_IF_ERROR(write(host, host, ""));
  for (const auto& [task, host] : options.tasks) {
    WEIR_RETURN_IF_ERROR(write(FolderOf(task), host, CertificateNameOf(task)));
  }
  made.Keep();
  return absl::OkStatus();
}

absl::StatusOr<std::string> RevokeKeys(const std::string& directory,
                                       const std::vector<std::string>& folders) {
  if (directory.empty() || folders.empty()) {
    return absl::InvalidArgumentError(
        "name the folder of the keys, and those in it whose certificates are taken back");
  }
  WEIR_ASSIGN_OR_RETURN(const Certificate authority,
                        ReadCertificateFile(JoinPath(directory, "ca.pem"), JoinPath(directory, "ca.key")));
  std::vector<Certificate> certificates;
  for (const std::string& folder : folders) {
    WEIR_RETURN_IF_ERROR(CheckHost(folder));
    const std::string path = JoinPath(JoinPath(directory, folder), "cert.pem");
    WEIR_ASSIGN_OR_RETURN(certificates.emplace_back(), ReadCertificateFile(path));
    if (IsSignedBy(certificates.back(), authority)) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is of another CA than ",
                                                   JoinPath(directory, "ca.pem"),
                                                   ", whose list says nothing of it"));
  }
  // Two processes that read the same list would each write it with their own entry only.
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<DirectoryLock> lock,
                        DirectoryLock::Acquire(directory, kWaitForOther));
  const std::string path = JoinPath(directory, "revoked.pem");
  WEIR_ASSIGN_OR_RETURN(const std::string list,
                        MakeRevocationList(authority, certificates, path, absl::Now()));
  WEIR_RETURN_IF_ERROR(WriteFileAtomically(PosixFileSystem(), path, list));
  return path;
}

absl::StatusOr<std::map<TaskName, std::string>> ParseKeyTasks(absl::string_view text) {
  std::map<TaskName, std::string> tasks;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const absl::StatusOr<TaskName> task = TaskName::Parse(entry.first);
    if (!task.ok() || entry.second.empty() || !tasks.emplace(*task, entry.second).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", absl::CEscape(part),
                                                     "' is no task with its host, or named twice: write "
                                                     "'ps:0=gpu1,worker:0=gpu2'"));
    }
  }
  return tasks;
}

}  // namespace weir
