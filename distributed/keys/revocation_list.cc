#include "distributed/keys/revocation_list.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/keys/openssl_text.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "kernels/notice.h"
#include "kernels/process_clock.h"

namespace weir {
namespace {

constexpr uint64_t kMaxFileBytes = 16 << 20;               // some 400,000 certificates
constexpr absl::Duration kValid = absl::Hours(24 * 3650);  // RFC 5280 wants an end; nobody here heeds it

using BioRef = std::unique_ptr<BIO, decltype(&BIO_free)>;
using CertificateRef = std::unique_ptr<X509, decltype(&X509_free)>;
using NameRef = std::unique_ptr<X509_NAME, decltype(&X509_NAME_free)>;
using NumberRef = std::unique_ptr<ASN1_INTEGER, decltype(&ASN1_INTEGER_free)>;
using Lists = std::vector<std::shared_ptr<X509_CRL>>;

BioRef Reading(absl::string_view text) {
  return BioRef(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  const auto text = ReadWholeFile(PosixFileSystem(), path, kMaxFileBytes);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat("TLS: cannot read '", path, "': ", text.status().message()));
}

absl::StatusOr<Lists> ReadLists(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  const BioRef file = Reading(text);
  Lists lists;
  while (X509_CRL* const list = PEM_read_bio_X509_CRL(file.get(), nullptr, nullptr, nullptr)) {
    lists.emplace_back(list, X509_CRL_free);
  }
  // Behind the last list there is no line that begins another one; anything else is damage.
  const bool is_whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (is_whole && !lists.empty()) return lists;
  return absl::InvalidArgumentError(absl::StrCat(
      "TLS: '", path, "' ", lists.empty() ? "has no" : "has a damaged", " list of revoked certificates"));
}

absl::StatusOr<std::vector<std::shared_ptr<X509>>> ReadAuthorities(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  const BioRef file = Reading(text);
  std::vector<std::shared_ptr<X509>> authorities;
  while (X509* const authority = PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr)) {
    authorities.emplace_back(authority, X509_free);
  }
  ERR_clear_error();
  return authorities;
}

bool IsSignedBy(X509_CRL* list, const X509* authority) {
  EVP_PKEY* const key = X509_get0_pubkey(authority);
  const bool is_signed = X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) == 0 &&
                         key != nullptr && X509_CRL_verify(list, key) == 1;
  ERR_clear_error();
  return is_signed;
}

bool Names(X509_CRL* list, const X509_NAME* issuer, const ASN1_INTEGER* number) {
  X509_REVOKED* found = nullptr;
  return X509_NAME_cmp(X509_CRL_get_issuer(list), issuer) == 0 &&
         X509_CRL_get0_by_serial(list, &found, const_cast<ASN1_INTEGER*>(number)) == 1;
}

// In DER, which says where it ends.
template <typename Value>
bool AppendDer(const Value* value, int (*encode)(const Value*, unsigned char**), std::string* text) {
  unsigned char* bytes = nullptr;
  const int num_bytes = encode(value, &bytes);
  if (num_bytes < 0) return false;
  text->append(reinterpret_cast<const char*>(bytes), num_bytes);
  OPENSSL_free(bytes);
  return true;
}

bool AddSerialNumber(X509_CRL* list, const ASN1_INTEGER* number, const ASN1_TIME* time) {
  X509_REVOKED* const entry = X509_REVOKED_new();
  // What is set is copied; the list takes the entry.
  if (entry != nullptr && X509_REVOKED_set_serialNumber(entry, const_cast<ASN1_INTEGER*>(number)) == 1 &&
      X509_REVOKED_set_revocationDate(entry, const_cast<ASN1_TIME*>(time)) == 1 &&
      X509_CRL_add0_revoked(list, entry) == 1) {
    return true;
  }
  X509_REVOKED_free(entry);
  return false;
}

bool AddEntries(X509_CRL* list, X509_CRL* from) {
  STACK_OF(X509_REVOKED)* const entries = X509_CRL_get_REVOKED(from);
  for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
    const X509_REVOKED* const entry = sk_X509_REVOKED_value(entries, i);
    if (!AddSerialNumber(list, X509_REVOKED_get0_serialNumber(entry),
                         X509_REVOKED_get0_revocationDate(entry))) {
      return false;
    }
  }
  return true;
}

using TimeRef = std::unique_ptr<ASN1_TIME, decltype(&ASN1_STRING_free)>;
TimeRef TimeOf(absl::Time time) {
  return TimeRef(ASN1_TIME_set(nullptr, absl::ToTimeT(time)), ASN1_STRING_free);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RevocationList>> RevocationList::Follow(const std::string& path,
                                                                       const std::string& ca_path) {
  WEIR_ASSIGN_OR_RETURN(Authorities authorities, ReadAuthorities(ca_path));
  std::unique_ptr<RevocationList> list(new RevocationList(path, ca_path, std::move(authorities)));
  absl::MutexLock lock(&list->mutex_);
  WEIR_ASSIGN_OR_RETURN(list->version_, list->CurrentVersion());
  WEIR_ASSIGN_OR_RETURN(list->lists_, list->Read());
  return list;
}

std::string RevocationList::MarkOf(absl::string_view certificate_pem) {
  const CertificateRef certificate(
      PEM_read_bio_X509(Reading(certificate_pem).get(), nullptr, nullptr, nullptr), X509_free);
  std::string mark;
  const bool is_one =
      certificate != nullptr &&
      AppendDer<X509_NAME>(X509_get_issuer_name(certificate.get()), i2d_X509_NAME, &mark) &&
      AppendDer<ASN1_INTEGER>(X509_get0_serialNumber(certificate.get()), i2d_ASN1_INTEGER, &mark);
  ERR_clear_error();
  return is_one ? mark : "";
}

bool RevocationList::Has(absl::string_view mark) {
  const auto* at = reinterpret_cast<const unsigned char*>(mark.data());
  const unsigned char* const end = at + mark.size();
  const NameRef issuer(d2i_X509_NAME(nullptr, &at, end - at), X509_NAME_free);
  const NumberRef number(issuer == nullptr ? nullptr : d2i_ASN1_INTEGER(nullptr, &at, end - at),
                         ASN1_INTEGER_free);
  ERR_clear_error();
  if (number == nullptr || at != end) return true;
  for (const std::shared_ptr<X509_CRL>& list : Current()) {
    if (Names(list.get(), issuer.get(), number.get())) return true;
  }
  return false;
}

absl::StatusOr<RevocationList::Version> RevocationList::CurrentVersion() const {
  struct stat found {};
  if (stat(path_.c_str(), &found) != 0) {
    const absl::Status error = absl::ErrnoToStatus(errno, "stat");
    return absl::InvalidArgumentError(absl::StrCat("TLS: cannot read '", path_, "': ", error.message()));
  }
  return Version{static_cast<int64_t>(found.st_dev), static_cast<int64_t>(found.st_ino), found.st_size,
                 found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

absl::StatusOr<RevocationList::Lists> RevocationList::Read() const {
  WEIR_ASSIGN_OR_RETURN(Lists lists, ReadLists(path_));
  for (const std::shared_ptr<X509_CRL>& list : lists) {
    bool is_signed = false;
    for (const std::shared_ptr<X509>& authority : authorities_) {
      is_signed = is_signed || IsSignedBy(list.get(), authority.get());
    }
    if (!is_signed) {
      return absl::InvalidArgumentError(
          absl::StrCat("TLS: '", path_, "' has a list of revoked certificates that no CA in '", ca_path_,
                       "' has signed, as that was when this task began"));
    }
  }
  return lists;
}

RevocationList::Lists RevocationList::Current() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = ProcessNow();
  if (now < next_look_) return lists_;
  next_look_ = now + kLookInterval;
  const absl::StatusOr<Version> version = CurrentVersion();
  // A file that is gone for a moment, as while it is exchanged, has not changed.
  const bool is_new = version.ok() && *version != version_;
  if (!version.ok() || (!is_new && !read_again_)) return lists_;
  version_ = *version;
  absl::StatusOr<Lists> lists = Read();
  read_again_ = !lists.ok();
  if (lists.ok()) {
    lists_ = *std::move(lists);
  } else if (is_new) {
    PrintNotice(absl::StrCat(lists.status().message(), "; the list before it still counts"));
  }
  return lists_;
}

absl::StatusOr<std::string> MakeRevocationList(const Certificate& authority,
                                               const std::vector<Certificate>& certificates,
                                               const std::string& previous, absl::Time now) {
  const std::unique_ptr<X509_CRL, decltype(&X509_CRL_free)> made(X509_CRL_new(), X509_CRL_free);
  X509_CRL* const list = made.get();
  const TimeRef begin = TimeOf(now), end = TimeOf(now + kValid);
  const auto failed = [] { return OpenSslError("make a list of revoked certificates"); };
  if (list == nullptr || begin == nullptr || end == nullptr ||
      X509_CRL_set_version(list, X509_CRL_VERSION_2) != 1 ||
      X509_CRL_set_issuer_name(list, X509_get_subject_name(authority.certificate.get())) != 1 ||
      X509_CRL_set1_lastUpdate(list, begin.get()) != 1 || X509_CRL_set1_nextUpdate(list, end.get()) != 1) {
    return failed();
  }
  if (PosixFileSystem().Exists(previous)) {
    WEIR_ASSIGN_OR_RETURN(const Lists lists, ReadLists(previous));
    for (const std::shared_ptr<X509_CRL>& from : lists) {
      if (!IsSignedBy(from.get(), authority.certificate.get())) {
        return absl::InvalidArgumentError(absl::StrCat("'", previous, "' has a list of another CA"));
      }
      if (!AddEntries(list, from.get())) return failed();
    }
  }
  for (const Certificate& certificate : certificates) {
    X509* const revoked = certificate.certificate.get();
    const ASN1_INTEGER* const number = X509_get0_serialNumber(revoked);
    if (!Names(list, X509_get_issuer_name(revoked), number) && !AddSerialNumber(list, number, begin.get())) {
      return failed();
    }
  }
  if (X509_CRL_sort(list) != 1 || X509_CRL_sign(list, authority.key.get(), EVP_sha256()) == 0)
    return failed();
  return Pem("a list of revoked certificates",
             [list](BIO* memory) { return PEM_write_bio_X509_CRL(memory, list); });
}

}  // namespace weir
