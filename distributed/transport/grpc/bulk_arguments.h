// Connection settings for large messages, the same on both ends.
//
// gRPC's defaults suit small calls: data in 16 KiB frames, read in 8 KiB pieces, at most 64 KiB ahead of the
// reader until its bandwidth estimate has grown. Tensors come in megabytes.
#pragma once

#include <utility>

#include "grpc/grpc.h"

namespace weir {

inline constexpr std::pair<const char*, int> kBulkArguments[] = {
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 4 << 20},    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 20},
    {GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 1 << 20}, {GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20},
    {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 << 20},
};

}  // namespace weir
