// Lists of the certificates that a CA has taken back: X.509 CRLs (RFC 5280, section 5), made and read with
// OpenSSL. `weir keys --revoke` makes them, servers look callers up in them
// (SecurityOptions::tls_revoked_file).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/keys/certificate.h"

struct X509_crl_st;

namespace weir {

// A file with lists, PEM. A file that is exchanged while it is followed counts after kLookInterval at the
// latest; while the new one cannot be read, the one before counts, a notice says so, and it is tried again.
// The time at which a list wants to be replaced ("next update") is not heeded: an old list still keeps those
// out that it names. CAs are those of the beginning: another one's list comes with the files for a later
// start.
//
// Thread safety: all functions.
class RevocationList {
 public:
  // The file is looked at so often, when somebody calls.
  static constexpr absl::Duration kLookInterval = absl::Seconds(1);

  // InvalidArgument, naming the file, when it has no list, or one that no certificate in `ca_path` has
  // signed.
  static absl::StatusOr<std::unique_ptr<RevocationList>> Follow(const std::string& path,
                                                                const std::string& ca_path);

  // What a list may name a certificate (PEM) by, its issuer and serial number, encoded. Empty: it is none.
  static std::string MarkOf(absl::string_view certificate_pem);

  // Whether the list names the certificate. What is no mark counts as named.
  bool Has(absl::string_view mark) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Lists = std::vector<std::shared_ptr<X509_crl_st>>;
  using Authorities = std::vector<std::shared_ptr<x509_st>>;
  // What tells one content of the file from the next one without reading it.
  struct Version {
    int64_t device = 0, file = 0, num_bytes = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Version&) const = default;
  };

  RevocationList(std::string path, std::string ca_path, Authorities authorities)
      : path_(std::move(path)), ca_path_(std::move(ca_path)), authorities_(std::move(authorities)) {}

  absl::StatusOr<Version> CurrentVersion() const;
  absl::StatusOr<Lists> Read() const;
  Lists Current() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string path_, ca_path_;
  const Authorities authorities_;
  absl::Mutex mutex_;
  Version version_ ABSL_GUARDED_BY(mutex_);  // that was read last, or could not be
  // Whether it could not: it may be this process that lacks something.
  bool read_again_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time next_look_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  Lists lists_ ABSL_GUARDED_BY(mutex_);
};

// The PEM text of a list of these certificates and of those in the list in the file `previous`, if that is
// there, signed by the authority. Errors are those of reading `previous`, and Internal, with OpenSSL's
// reason.
absl::StatusOr<std::string> MakeRevocationList(const Certificate& authority,
                                               const std::vector<Certificate>& certificates,
                                               const std::string& previous, absl::Time now);

}  // namespace weir
