// What OpenSSL says and writes, as statuses and strings.
#pragma once

#include <openssl/bio.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace weir {

// Internal: "OpenSSL cannot <attempt>: <its reason>". The reasons of this thread are forgotten.
absl::Status OpenSslError(absl::string_view attempt);

// What `write`, one of OpenSSL's functions PEM_write_bio_*, writes.
template <typename Write>
absl::StatusOr<std::string> Pem(absl::string_view what, Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), BIO_free);
  if (memory == nullptr || write(memory.get()) != 1) return OpenSslError(absl::StrCat("write ", what));
  char* bytes = nullptr;
  const long num_bytes = BIO_get_mem_data(memory.get(), &bytes);
  return std::string(bytes, num_bytes);
}

}  // namespace weir
