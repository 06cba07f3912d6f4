// The keys of the metadata of our calls.
#pragma once

namespace weir {

// Of a request: the job's token.
inline constexpr char kTokenKey[] = "weir-token";
// Of a reply: present when the handler, and not gRPC, made the error.
inline constexpr char kRepliedKey[] = "weir-replied";

}  // namespace weir
