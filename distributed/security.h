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
  std::string token;          // empty: none
  std::string tls_cert_file;  // PEM; with tls_key_file
  std::string tls_key_file;   // PEM
  std::string
      tls_ca_file;  // PEM; clients check servers with it, and servers then demand clients' certificates
  std::string
      tls_server_name;    // the name on the servers' certificates, where it is not the host of the address
  bool insecure = false;  // listen beyond loopback without any of it

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

// Compares without telling by its time how much of a wrong token is right.
bool TokensMatch(absl::string_view a, absl::string_view b);

// NotFound or InvalidArgument naming the file; a newline at its end does not count.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace weir
