#include "distributed/transport/frame.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire form is written as it lies in memory");

class StringBuffer final : public Buffer {
 public:
  explicit StringBuffer(std::string bytes) : Buffer(nullptr, bytes.size()), bytes_(std::move(bytes)) {
    data_ = bytes_.data();
  }

 private:
  std::string bytes_;
};

}  // namespace

Payload Payload::OfTensor(const Tensor& tensor) { return OfTensor(tensor, 0, tensor.num_bytes()); }

Payload Payload::OfTensor(const Tensor& tensor, size_t byte_offset, size_t num_bytes) {
  Payload payload;
  payload.buffer_ = tensor.buffer();
  payload.data_ = static_cast<const char*>(tensor.data()) + byte_offset;
  payload.num_bytes_ = num_bytes;
  return payload;
}

Payload Payload::OfBuffer(RefPtr<Buffer> buffer, char* data, size_t num_bytes) {
  Payload payload;
  payload.buffer_ = std::move(buffer);
  payload.data_ = data;
  payload.num_bytes_ = num_bytes;
  return payload;
}

Payload Payload::OfString(std::string bytes) {
  Payload payload;
  payload.buffer_ = MakeRef<StringBuffer>(std::move(bytes));
  payload.data_ = static_cast<const char*>(payload.buffer_->data());
  payload.num_bytes_ = payload.buffer_->num_bytes();
  return payload;
}

absl::StatusOr<Payload> Payload::Allocate(size_t num_bytes) {
  Payload payload;
  payload.buffer_ = HostAllocator().Allocate(num_bytes);
  if (!payload.buffer_) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a payload of ", num_bytes, " bytes"));
  }
  payload.data_ = static_cast<const char*>(payload.buffer_->data());
  payload.num_bytes_ = num_bytes;
  return payload;
}

size_t Frame::num_wire_bytes() const {
  size_t total = FramePrologue::kFixedBytes + 8 * payloads.size() + header.size();
  for (const Payload& payload : payloads) total += payload.num_bytes();
  return total;
}

std::string FramePrologue::Encode(const Frame& frame) {
  std::string bytes(kFixedBytes + 8 * frame.payloads.size(), '\0');
  const uint32_t fixed[2] = {static_cast<uint32_t>(frame.header.size()),
                             static_cast<uint32_t>(frame.payloads.size())};
  std::memcpy(bytes.data(), fixed, sizeof(fixed));
  char* position = bytes.data() + sizeof(fixed);
  for (const Payload& payload : frame.payloads) {
    const uint64_t num_bytes = payload.num_bytes();
    std::memcpy(position, &num_bytes, sizeof(num_bytes));
    position += sizeof(num_bytes);
  }
  return bytes;
}

absl::StatusOr<FramePrologue> FramePrologue::Decode(const char* fixed, size_t num_message_bytes) {
  FramePrologue prologue;
  std::memcpy(&prologue.num_header_bytes_, fixed, 4);
  std::memcpy(&prologue.num_payloads_, fixed + 4, 4);
  if (prologue.num_payloads_ > kMaxPayloads || prologue.num_header_bytes_ > kMaxHeaderBytes ||
      kFixedBytes + prologue.num_size_bytes() + prologue.num_header_bytes_ > num_message_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message of ", num_message_bytes, " bytes cannot have a header of ",
                     prologue.num_header_bytes_, " and ", prologue.num_payloads_, " payloads"));
  }
  return prologue;
}

absl::Status FramePrologue::DecodeSizes(const char* sizes, size_t num_message_bytes) {
  uint64_t left = num_message_bytes - kFixedBytes - num_size_bytes() - num_header_bytes_;
  payload_sizes_.resize(num_payloads_);
  if (num_payloads_ > 0) std::memcpy(payload_sizes_.data(), sizes, num_size_bytes());
  for (const uint64_t num_bytes : payload_sizes_) {
    if (num_bytes > left) {
      return absl::InvalidArgumentError(
          absl::StrCat("a payload of ", num_bytes, " bytes in a message with ", left, " left"));
    }
    left -= num_bytes;
  }
  if (left == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a message has ", left, " bytes after its last payload"));
}

}  // namespace weir
