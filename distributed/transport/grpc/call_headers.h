// Reads the headers of the first call on an HTTP/2 connection (HPACK, RFC 7541), as far as it takes to know
// which method is called and with which token. The bytes come from strangers.
//
// Only the first block of a connection can be read: later ones may refer to what it left in HPACK's table.
// Thread safety: all functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

struct CallHeaders {
  std::string path;   // "/weir.Worker/Heartbeat"; empty when there is none
  std::string token;  // the value of `token_key`, the first if there are several; empty when there is none
};

// Takes memory in proportion to the block. InvalidArgument when the block is damaged.
absl::StatusOr<CallHeaders> ReadCallHeaders(absl::string_view block, absl::string_view token_key);

}  // namespace weir
