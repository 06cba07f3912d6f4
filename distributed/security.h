// Who may talk to a server of this job, and under which keys.
//
// Two protections, together or alone: a token, a secret that every call of the job carries, and TLS. A server
// that has a CA demands certificates of its callers; without one TLS only encrypts, and lets everybody in. So
// a server that other machines can reach needs a token or a CA (CheckExposure).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distributed/task_name.h"

namespace weir {

struct SecurityOptions {
  // Every call carries it, and a server refuses calls that do not, whatever the other options say. Empty:
  // none; otherwise kMinTokenLength to kMaxTokenLength visible characters.
  std::string token;
  // This task's certificate and its key, PEM; both or neither.
  std::string tls_cert_file;
  std::string tls_key_file;
  // The CA that signed the certificates of all tasks, PEM. Clients check the servers' certificates with it.
  // Servers that have it demand a certificate of their clients.
  std::string tls_ca_file;
  // Certificates that the CA has taken back, PEM (distributed/keys/revocation_list.h): a server refuses the
  // calls of those that show them. It is read again when it changes. Needs a CA.
  std::string tls_revoked_file;
  // The name on the servers' certificates, where it is not the host of the address.
  std::string tls_server_name;
  // Certificates are of tasks: a caller is refused when it speaks for another task than its certificate names
  // (CertificateNameOf), and so is a server that is another task than the one called. Needs a certificate and
  // a CA; instead of names of hosts. The same on all tasks.
  bool tls_task_names = false;
  // WEIR_TLS_TASK_NAMES is set but empty, which neither turns it on nor says that it shall be off.
  bool is_tls_task_names_blank = false;
  // The user knows who can reach this job: a server may listen where other machines reach it although nobody
  // has to prove who they are, and Server prints no warnings. A token that is given is checked all the same.
  bool insecure = false;

  bool uses_tls() const { return !tls_cert_file.empty() || !tls_ca_file.empty(); }
  // Whether a server with these options knows its callers.
  bool authenticates() const { return !token.empty() || (!tls_cert_file.empty() && !tls_ca_file.empty()); }
};

// Shorter ones can be guessed.
inline constexpr size_t kMinTokenLength = 16;
inline constexpr size_t kMaxTokenLength = 4096;

// The DNS name that the certificate of a task has: "worker-1.task.weir". It is nobody's on the Internet.
std::string CertificateNameOf(const TaskName& task);

// OK when one of `names`, the DNS names of a caller's certificate, is that of the task which it speaks for;
// PermissionDenied, naming both.
absl::Status CheckCertificateNames(const std::vector<std::string>& names, const TaskName& sender);

// From $WEIR_JOB_TOKEN (set by `weir launch`), $WEIR_TLS_CERT, $WEIR_TLS_KEY, $WEIR_TLS_CA, $WEIR_TLS_REVOKED
// and $WEIR_TLS_TASK_NAMES ("1").
SecurityOptions SecurityFromEnvironment();

// InvalidArgument naming the file that is missing, the option that lacks its partner, the variable that is
// set but empty, or what is wrong with the token.
absl::Status CheckSecurityOptions(const SecurityOptions& options);

// FailedPrecondition, saying what to do, when anybody on other machines could call a server at `address`.
// InvalidArgument when the host cannot be resolved.
absl::Status CheckExposure(const std::string& address, const SecurityOptions& options);

// Whether only this machine can reach the address.
absl::StatusOr<bool> IsLoopback(const std::string& address);

// Compares two tokens of one length in a time that does not depend on where they differ.
bool TokensMatch(absl::string_view a, absl::string_view b);

// NotFound or InvalidArgument naming the file; a newline at its end does not count.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace weir
