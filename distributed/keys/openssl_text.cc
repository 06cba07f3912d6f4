#include "distributed/keys/openssl_text.h"

#include <openssl/err.h>

namespace weir {

absl::Status OpenSslError(absl::string_view attempt) {
  char reason[256] = "no reason given";
  if (const unsigned long error = ERR_get_error(); error != 0) {
    ERR_error_string_n(error, reason, sizeof(reason));
  }
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("OpenSSL cannot ", attempt, ": ", reason));
}

}  // namespace weir
