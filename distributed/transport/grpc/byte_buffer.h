// Frames as gRPC byte buffers and statuses as gRPC statuses.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distributed/transport/frame.h"

namespace weir {

// Slices alias the payloads' buffers and hold them. Framed: our wire form (frame.h); otherwise the payloads
// alone.
grpc::ByteBuffer ToByteBuffer(const Frame& frame, bool is_framed);

// Copies, each payload of a framed message to where `place` says (DecodeFrame). Not framed: everything
// becomes one payload.
absl::StatusOr<Frame> FromByteBuffer(
    const grpc::ByteBuffer& buffer, bool is_framed,
    absl::FunctionRef<Payload(absl::string_view header, size_t index, size_t num_bytes)> place);

// The message is cut to what fits in HTTP/2 trailers.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace weir
