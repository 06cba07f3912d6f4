// One message of a transport: a small header and any number of payloads, the raw bytes of tensors.
//
// Payloads share buffers: on the way out the transport sends a tensor's own bytes and keeps its buffer alive
// until they have left; on the way in every payload is copied once, out of the network's pieces, into a
// buffer that a Tensor can take over (aligned as Allocator promises). Values; not thread-safe to modify
// concurrently.
//
// Wire form (little endian): u32 header bytes, u32 number of payloads, u64 bytes of each payload, header,
// payloads.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/buffer.h"
#include "graph/types/tensor.h"

namespace weir {

class Payload {
 public:
  Payload() = default;

  // Shares the tensor's buffer. Precondition: IsPlainBytes(tensor.dtype()).
  static Payload OfTensor(const Tensor& tensor);
  // Some of its bytes. Precondition: they are within it.
  static Payload OfTensor(const Tensor& tensor, size_t byte_offset, size_t num_bytes);
  // Bytes that live as long as the buffer.
  static Payload OfBuffer(RefPtr<Buffer> buffer, char* data, size_t num_bytes);
  // Takes the string over.
  static Payload OfString(std::string bytes);
  // A fresh buffer to fill. ResourceExhausted naming the size when memory runs out.
  static absl::StatusOr<Payload> Allocate(size_t num_bytes);

  const char* data() const { return data_; }
  // For whoever called Allocate, before handing it on.
  char* mutable_data() { return const_cast<char*>(data_); }
  size_t num_bytes() const { return num_bytes_; }
  absl::string_view bytes() const { return absl::string_view(data_, num_bytes_); }
  const RefPtr<Buffer>& buffer() const { return buffer_; }
  // Where the payload begins in its buffer.
  size_t byte_offset() const { return buffer_ ? data_ - static_cast<const char*>(buffer_->data()) : 0; }

 private:
  RefPtr<Buffer> buffer_;
  const char* data_ = nullptr;
  size_t num_bytes_ = 0;
};

struct Frame {
  std::string header;
  std::vector<Payload> payloads;

  // Bytes on the wire.
  size_t num_wire_bytes() const;
};

// The part of the wire form before the header.
class FramePrologue {
 public:
  // Bounds what a hostile message makes us allocate before its payloads are seen.
  static constexpr uint32_t kMaxPayloads = 1 << 20;
  static constexpr uint32_t kMaxHeaderBytes = 64 << 20;
  static constexpr size_t kFixedBytes = 8;

  static std::string Encode(const Frame& frame);

  // From the first kFixedBytes: how many bytes of payload sizes follow. InvalidArgument when they cannot fit
  // in a message of num_message_bytes.
  static absl::StatusOr<FramePrologue> Decode(const char* fixed, size_t num_message_bytes);
  size_t num_size_bytes() const { return size_t{8} * num_payloads_; }

  // From those bytes. InvalidArgument unless header and payloads fill the message exactly.
  absl::Status DecodeSizes(const char* sizes, size_t num_message_bytes);

  size_t num_header_bytes() const { return num_header_bytes_; }
  const std::vector<uint64_t>& payload_sizes() const { return payload_sizes_; }

 private:
  uint32_t num_header_bytes_ = 0;
  uint32_t num_payloads_ = 0;
  std::vector<uint64_t> payload_sizes_;
};

// Leaves it to DecodeFrame where a payload goes.
inline Payload AnyPlace(absl::string_view, size_t, size_t) { return Payload(); }

// A Frame out of its wire form. `read` copies the next n bytes of the message to where it is told; it is
// never asked for more than num_message_bytes in all. `place(header, index, num_bytes)` may give the payload
// that the bytes of one go into; one of another size is not used, and a fresh one allocated. InvalidArgument
// for what is no frame; ResourceExhausted.
template <typename Read, typename Place>
absl::StatusOr<Frame> DecodeFrame(size_t num_message_bytes, Read read, Place place) {
  char fixed[FramePrologue::kFixedBytes];
  if (num_message_bytes < sizeof(fixed))
    return absl::InvalidArgumentError("a message ends within its first bytes");
  read(fixed, sizeof(fixed));
  absl::StatusOr<FramePrologue> prologue = FramePrologue::Decode(fixed, num_message_bytes);
  if (!prologue.ok()) return prologue.status();
  std::string sizes(prologue->num_size_bytes(), '\0');
  read(sizes.data(), sizes.size());
  if (absl::Status status = prologue->DecodeSizes(sizes.data(), num_message_bytes); !status.ok())
    return status;
  Frame frame;
  frame.header.resize(prologue->num_header_bytes());
  read(frame.header.data(), frame.header.size());
  frame.payloads.reserve(prologue->payload_sizes().size());
  for (const uint64_t num_bytes : prologue->payload_sizes()) {
    absl::StatusOr<Payload> payload = place(frame.header, frame.payloads.size(), num_bytes);
    if (payload->num_bytes() != num_bytes || num_bytes == 0) payload = Payload::Allocate(num_bytes);
    if (!payload.ok()) return payload.status();
    read(payload->mutable_data(), num_bytes);
    frame.payloads.push_back(*std::move(payload));
  }
  return frame;
}

}  // namespace weir
