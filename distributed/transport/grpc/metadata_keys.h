// The keys of the metadata of our calls.
#pragma once

namespace weir {

// Of a request: the job's token.
inline constexpr char kTokenKey[] = "weir-token";
// Of a reply: present when the handler, and not gRPC, made the error.
inline constexpr char kRepliedKey[] = "weir-replied";

// What a caller without the token is told.
inline constexpr char kNoToken[] =
    "the call does not carry this job's token ($WEIR_JOB_TOKEN differs, or the caller has none)";

}  // namespace weir
