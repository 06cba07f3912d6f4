#include "distributed/security.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/cluster_spec.h"
#include "distributed/host_name.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// In the place of a variable that is set but empty: CheckSecurityOptions refuses it. A secret, or a list,
// that was not found must not open the server.
constexpr char kBlank[] = " ";
constexpr absl::Duration kLookupTimeout = absl::Seconds(20);

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return "";
  return *value == '\0' ? kBlank : value;
}

absl::Status CheckTokenLength(absl::string_view whose, size_t length) {
  if (length >= kMinTokenLength && length <= kMaxTokenLength) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(whose, " has ", length, " characters: a token has ",
                                                 kMinTokenLength, " to ", kMaxTokenLength));
}

absl::Status CheckNotBlank(absl::string_view variable, const std::string& path) {
  if (path != kBlank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("TLS: ", variable, " is set but empty: name the file, or leave it unset"));
}

absl::Status CheckNotBlank(const SecurityOptions& options) {
  WEIR_RETURN_IF_ERROR(CheckNotBlank("WEIR_TLS_CERT", options.tls_cert_file));
  WEIR_RETURN_IF_ERROR(CheckNotBlank("WEIR_TLS_KEY", options.tls_key_file));
  WEIR_RETURN_IF_ERROR(CheckNotBlank("WEIR_TLS_CA", options.tls_ca_file));
  WEIR_RETURN_IF_ERROR(CheckNotBlank("WEIR_TLS_REVOKED", options.tls_revoked_file));
  if (!options.is_tls_task_names_blank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "TLS: WEIR_TLS_TASK_NAMES is set but empty: say 1 or 0, or leave it unset");
}

absl::Status CheckFile(absl::string_view option, const std::string& path) {
  if (path.empty() || access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, ": cannot read '", path, "': ", strerror(errno)));
}

}  // namespace

SecurityOptions SecurityFromEnvironment() {
  SecurityOptions options;
  options.token = Environment("WEIR_JOB_TOKEN");
  options.tls_cert_file = Environment("WEIR_TLS_CERT");
  options.tls_key_file = Environment("WEIR_TLS_KEY");
  options.tls_ca_file = Environment("WEIR_TLS_CA");
  options.tls_revoked_file = Environment("WEIR_TLS_REVOKED");
  const std::string task_names = Environment("WEIR_TLS_TASK_NAMES");
  options.is_tls_task_names_blank = task_names == kBlank;
  options.tls_task_names = !task_names.empty() && task_names != kBlank && task_names != "0";
  return options;
}

absl::Status CheckSecurityOptions(const SecurityOptions& options) {
  WEIR_RETURN_IF_ERROR(CheckNotBlank(options));
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return absl::InvalidArgumentError("TLS: a certificate and its key must be given together");
  }
  if (options.tls_task_names && (options.tls_cert_file.empty() || options.tls_ca_file.empty())) {
    return absl::InvalidArgumentError(
        "TLS: names of tasks are checked in certificates (--tls_task_names, WEIR_TLS_TASK_NAMES), which "
        "needs a "
        "certificate, its key and a CA");
  }
  if (!options.tls_revoked_file.empty() && options.tls_ca_file.empty()) {
    return absl::InvalidArgumentError(
        "TLS: revoked certificates (--tls_revoked, WEIR_TLS_REVOKED) are those of a CA (--tls_ca, "
        "WEIR_TLS_CA), and "
        "there is none");
  }
  if (options.tls_task_names && !options.tls_server_name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: servers' certificates shall name their tasks, or all '", options.tls_server_name,
                     "': not both"));
  }
  if (!options.token.empty() && absl::StripAsciiWhitespace(options.token).empty()) {
    return absl::InvalidArgumentError(
        "the token, or WEIR_JOB_TOKEN, is set but empty: give the job one (weir keys, weir launch), or leave "
        "it "
        "unset");
  }
  if (!options.token.empty()) {
    WEIR_RETURN_IF_ERROR(CheckTokenLength("the token (of $WEIR_JOB_TOKEN)", options.token.size()));
  }
  for (const char c : options.token) {
    if (!absl::ascii_isgraph(c))
      return absl::InvalidArgumentError("the token has characters that are not visible ASCII");
  }
  WEIR_RETURN_IF_ERROR(CheckFile("TLS certificate", options.tls_cert_file));
  WEIR_RETURN_IF_ERROR(CheckFile("TLS key", options.tls_key_file));
  WEIR_RETURN_IF_ERROR(CheckFile("TLS CA", options.tls_ca_file));
  return CheckFile("revoked certificates", options.tls_revoked_file);
}

std::string CertificateNameOf(const TaskName& task) {
  return absl::StrCat(task.job, "-", task.index, ".task.weir");
}

absl::Status CheckCertificateNames(const std::vector<std::string>& names, const TaskName& sender) {
  const std::string wanted = CertificateNameOf(sender);
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("a call for ", sender.ToString(), " came with a certificate of ",
                   names.empty() ? "no task" : absl::CEscape(absl::StrJoin(names, ", ")), ", which is not ",
                   wanted, " (WEIR_TLS_TASK_NAMES; 'weir keys --tasks' makes certificates of tasks)"));
}

absl::StatusOr<bool> IsLoopback(const std::string& address) {
  WEIR_ASSIGN_OR_RETURN(const HostPort host_port, HostPort::Parse(address));
  const absl::StatusOr<HostAddresses> found = LookUpHost(host_port.host, kLookupTimeout);
  if (found.ok()) return found->is_loopback;
  return absl::InvalidArgumentError(absl::StrCat("address '", address, "': ", found.status().message()));
}

absl::Status CheckExposure(const std::string& address, const SecurityOptions& options) {
  if (options.insecure || options.authenticates()) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const bool is_loopback, IsLoopback(address));
  if (is_loopback) return absl::OkStatus();
  const char* const why = options.tls_cert_file.empty() ? "" : " (TLS without a CA lets everybody in)";
  return absl::FailedPreconditionError(absl::StrCat(
      "refusing to listen at ", address, ", which other machines can reach", why,
      ": give the job a token ($WEIR_JOB_TOKEN) or TLS with a CA ($WEIR_TLS_CERT, $WEIR_TLS_KEY, "
      "$WEIR_TLS_CA), or listen on 127.0.0.1. 'weir serve' has flags for the same: --token_file, --tls_cert, "
      "--tls_key, --tls_ca. On a network where everybody may run code here: 'weir serve --insecure', or "
      "ServerOptions::security.insecure in a program"));
}

bool TokensMatch(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read the token file '", path, "'"));
  // No more than can be one, with space at its end: a device has no end.
  std::string token(2 * kMaxTokenLength, '\0');
  file.read(token.data(), static_cast<std::streamsize>(token.size()));
  token.resize(file.gcount());
  absl::StripTrailingAsciiWhitespace(&token);
  WEIR_RETURN_IF_ERROR(CheckTokenLength(absl::StrCat("the token file '", path, "'"), token.size()));
  return token;
}

}  // namespace weir
