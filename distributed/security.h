// Who may talk to a server of this job, and under which keys.
//
// Two protections, together or alone: TLS (mutual when a CA is given on the server's side) and a token, a
// secret that every call of the job carries. A server that other machines can reach needs one of them
// (CheckExposure).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

struct SecurityOptions {
  // Every call carries it, and a server refuses calls that do not. Empty: none.
  std::string token;
  // This task's certificate and its key, PEM; both or neither.
  std::string tls_cert_file;
  std::string tls_key_file;
  // The CA that signed the certificates of all tasks, PEM. Clients check the servers' certificates with it.
  // Servers that have it demand a certificate of their clients.
  std::string tls_ca_file;
  // The name on the servers' certificates, where it is not the host of the address.
  std::string tls_server_name;
  // Listen where other machines can reach the server, with neither token nor TLS. The token is not checked.
  bool insecure = false;

  bool uses_tls() const { return !tls_cert_file.empty() || !tls_ca_file.empty(); }
};

// From $WEIR_JOB_TOKEN (set by `weir launch`), $WEIR_TLS_CERT, $WEIR_TLS_KEY and $WEIR_TLS_CA.
SecurityOptions SecurityFromEnvironment();

// InvalidArgument naming the file that is missing or the option that lacks its partner.
absl::Status CheckSecurityOptions(const SecurityOptions& options);

// FailedPrecondition, saying what to do, when a server at `address` could be reached from other machines
// without protection. InvalidArgument when the host cannot be resolved.
absl::Status CheckExposure(const std::string& address, const SecurityOptions& options);

// Whether only this machine can reach the address.
absl::StatusOr<bool> IsLoopback(const std::string& address);

// Compares two tokens of one length in a time that does not depend on where they differ.
bool TokensMatch(absl::string_view a, absl::string_view b);

// NotFound or InvalidArgument naming the file; a newline at its end does not count.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace weir
