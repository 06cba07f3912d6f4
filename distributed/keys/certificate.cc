#include "distributed/keys/certificate.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "distributed/keys/openssl_text.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr long kVersion3 = 2;

// A random serial number: two certificates of one authority must not have the same.
bool SetSerialNumber(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] &= 0x7f;  // positive
  BIGNUM* const number = BN_bin2bn(bytes, sizeof(bytes), nullptr);
  const bool is_set =
      number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return is_set;
}

bool SetTimes(X509* certificate, absl::Time begin, absl::Time end) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(begin)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(end)) != nullptr;
}

bool AddExtension(X509* certificate, X509V3_CTX* context, int kind, const std::string& value) {
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, context, kind, value.c_str());
  if (extension == nullptr) return false;
  const bool is_added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return is_added;
}

bool SetName(X509* certificate, const std::string& name) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(name.data()),
                                    static_cast<int>(name.size()), -1, 0) == 1;
}

using Extensions = std::vector<std::pair<int, std::string>>;

// Signed by `authority`; by itself without one.
absl::StatusOr<Certificate> Make(const std::string& name, const Certificate* authority, absl::Time begin,
                                 absl::Time end, const Extensions& extensions) {
  Certificate made;
  made.key = {EVP_EC_gen("P-256"), EVP_PKEY_free};
  if (made.key == nullptr) return OpenSslError("make a key");
  made.certificate = {X509_new(), X509_free};
  X509* const certificate = made.certificate.get();
  if (certificate == nullptr || X509_set_version(certificate, kVersion3) != 1 ||
      !SetSerialNumber(certificate) || !SetTimes(certificate, begin, end) || !SetName(certificate, name) ||
      X509_set_pubkey(certificate, made.key.get()) != 1) {
    return OpenSslError(absl::StrCat("make a certificate for '", name, "'"));
  }
  X509* const issuer = authority != nullptr ? authority->certificate.get() : certificate;
  EVP_PKEY* const issuer_key = authority != nullptr ? authority->key.get() : made.key.get();
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1) {
    return OpenSslError(absl::StrCat("name the issuer of a certificate for '", name, "'"));
  }
  for (const auto& [kind, value] : extensions) {
    if (!AddExtension(certificate, &context, kind, value)) {
      return OpenSslError(absl::StrCat("add '", value, "' to a certificate for '", name, "'"));
    }
  }
  if (X509_sign(certificate, issuer_key, EVP_sha256()) == 0) {
    return OpenSslError(absl::StrCat("sign a certificate for '", name, "'"));
  }
  return made;
}

bool IsAddress(const std::string& host) {
  unsigned char address[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
}

}  // namespace

absl::StatusOr<std::string> Certificate::KeyPem() const {
  return Pem("a key", [this](BIO* memory) {
    return PEM_write_bio_PrivateKey(memory, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

absl::StatusOr<std::string> Certificate::CertificatePem() const {
  return Pem("a certificate", [this](BIO* memory) { return PEM_write_bio_X509(memory, certificate.get()); });
}

absl::StatusOr<Certificate> MakeAuthority(const std::string& name, absl::Time begin, absl::Time end) {
  return Make(name, nullptr, begin, end,
              {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
               {NID_key_usage, "critical,keyCertSign,cRLSign"},
               {NID_subject_key_identifier, "hash"}});
}

absl::StatusOr<Certificate> MakeHostCertificate(const std::string& host, const Certificate& authority,
                                                absl::Time begin, absl::Time end,
                                                const std::string& other_name) {
  const std::string other = other_name.empty() ? "" : absl::StrCat(",DNS:", other_name);
  return Make(host, &authority, begin, end,
              {{NID_basic_constraints, "critical,CA:FALSE"},
               {NID_key_usage, "critical,digitalSignature"},
               {NID_ext_key_usage, "serverAuth,clientAuth"},
               {NID_subject_alt_name, absl::StrCat(IsAddress(host) ? "IP:" : "DNS:", host, other)},
               {NID_authority_key_identifier, "keyid"}});
}

namespace {

using CertificateRef = std::unique_ptr<X509, decltype(&X509_free)>;

absl::Status CheckReadable(const std::string& path) {
  if (access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("TLS: cannot read '", path, "': ", strerror(errno)));
}

absl::StatusOr<CertificateRef> ReadCertificate(const std::string& path) {
  WEIR_RETURN_IF_ERROR(CheckReadable(path));
  const std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(path.c_str(), "r"), BIO_free);
  CertificateRef certificate(
      file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), X509_free);
  ERR_clear_error();
  if (certificate != nullptr) return certificate;
  return absl::InvalidArgumentError(absl::StrCat("TLS: '", path, "' has no certificate"));
}

}  // namespace

absl::StatusOr<Certificate> ReadCertificateFile(const std::string& path, const std::string& key_path) {
  WEIR_ASSIGN_OR_RETURN(CertificateRef certificate, ReadCertificate(path));
  Certificate read;
  read.certificate = std::move(certificate);
  if (key_path.empty()) return read;
  WEIR_RETURN_IF_ERROR(CheckReadable(key_path));
  const std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(key_path.c_str(), "r"), BIO_free);
  read.key = {file == nullptr ? nullptr : PEM_read_bio_PrivateKey(file.get(), nullptr, nullptr, nullptr),
              EVP_PKEY_free};
  if (read.key == nullptr || X509_check_private_key(read.certificate.get(), read.key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: '", key_path, "' has no key, or not that of the certificate in '", path, "'"));
  }
  return read;
}

bool IsSignedBy(const Certificate& certificate, const Certificate& authority) {
  EVP_PKEY* const key = X509_get0_pubkey(authority.certificate.get());
  const bool is_signed = key != nullptr && X509_verify(certificate.certificate.get(), key) == 1;
  ERR_clear_error();
  return is_signed;
}

absl::StatusOr<bool> CertificateNames(const std::string& path, const std::string& name) {
  WEIR_ASSIGN_OR_RETURN(const CertificateRef certificate, ReadCertificate(path));
  return X509_check_host(certificate.get(), name.data(), name.size(), X509_CHECK_FLAG_NO_WILDCARDS,
                         nullptr) == 1;
}

absl::StatusOr<absl::Time> CertificateEnd(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const CertificateRef certificate, ReadCertificate(path));
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) == 1) {
    return absl::FromTM(end, absl::UTCTimeZone());
  }
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat("TLS: the certificate '", path, "' has a damaged date"));
}

absl::Status CheckNotExpired(const std::string& path, absl::Time now) {
  WEIR_ASSIGN_OR_RETURN(const absl::Time end, CertificateEnd(path));
  if (now < end) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("TLS: the certificate '", path, "' has expired on ",
                   absl::FormatTime("%Y-%m-%d %H:%M UTC", end, absl::UTCTimeZone()),
                   ": nobody would accept it; make another one ('weir keys')"));
}

}  // namespace weir
