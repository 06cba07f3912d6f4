// Key pairs and X.509 certificates, made with OpenSSL.
//
// Errors are Internal, with OpenSSL's reason. Thread safety: all functions; a pair is immutable.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

struct evp_pkey_st;
struct x509_st;

namespace weir {

struct Certificate {
  std::shared_ptr<evp_pkey_st> key;
  std::shared_ptr<x509_st> certificate;

  absl::StatusOr<std::string> KeyPem() const;
  absl::StatusOr<std::string> CertificatePem() const;
};

// Signs others, and itself.
absl::StatusOr<Certificate> MakeAuthority(const std::string& name, absl::Time begin, absl::Time end);

// For a server and caller at `host`, a name or an address, signed by `authority`; with another DNS name
// unless that is empty.
absl::StatusOr<Certificate> MakeHostCertificate(const std::string& host, const Certificate& authority,
                                                absl::Time begin, absl::Time end,
                                                const std::string& other_name = "");

// The certificate in a PEM file, the first there, with the key in another one unless that path is empty.
// InvalidArgument, naming the file, when there is none, or when the key is another one's.
absl::StatusOr<Certificate> ReadCertificateFile(const std::string& path, const std::string& key_path = "");

// Whether the authority has signed the certificate.
bool IsSignedBy(const Certificate& certificate, const Certificate& authority);

// Whether the certificate in a PEM file, the first there, has this DNS name. InvalidArgument when there is
// none.
absl::StatusOr<bool> CertificateNames(const std::string& path, const std::string& name);

// Until when the certificate in a PEM file, the first there, is valid. InvalidArgument when there is none.
absl::StatusOr<absl::Time> CertificateEnd(const std::string& path);

// InvalidArgument when it has expired.
absl::Status CheckNotExpired(const std::string& path, absl::Time now);

}  // namespace weir
