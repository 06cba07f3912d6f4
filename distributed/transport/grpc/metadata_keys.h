// The keys of the metadata of our calls.
#pragma once

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace weir {

// Of a request: the job's token.
inline constexpr char kTokenKey[] = "weir-token";
// Of a reply: present when the handler, and not gRPC, made the error.
inline constexpr char kRepliedKey[] = "weir-replied";

// What a caller without the token is told.
inline constexpr char kNoToken[] =
    "the call does not carry this job's token ($WEIR_JOB_TOKEN differs, or the caller has none)";

// TensorFlow's clients have no way to.
inline constexpr char kNoTokenOfTensorflow[] =
    "this task asks for its job's token, which TensorFlow's clients cannot send: start it with "
    "--tensorflow_clients=127.0.0.1:PORT (or WEIR_TENSORFLOW_CLIENTS) and use grpc://127.0.0.1:PORT";
inline absl::string_view WhyNoToken(absl::string_view method) {
  return absl::StartsWith(method, "/tensorflow.MasterService/") ? kNoTokenOfTensorflow : kNoToken;
}

}  // namespace weir
