#include "distributed/transport/grpc/byte_buffer.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

// Below this, copying the bytes next to the header is cheaper than a slice of their own.
constexpr size_t kInlineBytes = 4096;
constexpr size_t kMaxStatusMessageBytes = 3072;

void UnrefBuffer(void* buffer) { static_cast<Buffer*>(buffer)->Unref(); }

// Collects the small pieces into one slice between the large ones.
class SliceWriter {
 public:
  void AddBytes(absl::string_view bytes) { pending_.append(bytes.data(), bytes.size()); }

  void AddPayload(const Payload& payload) {
    if (payload.num_bytes() < kInlineBytes) return AddBytes(payload.bytes());
    Flush();
    RefPtr<Buffer> held = payload.buffer();
    slices_.emplace_back(const_cast<char*>(payload.data()), payload.num_bytes(), UnrefBuffer, held.release());
  }

  grpc::ByteBuffer Finish() {
    Flush();
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  void Flush() {
    if (pending_.empty()) return;
    slices_.emplace_back(pending_.data(), pending_.size());
    pending_.clear();
  }

  std::string pending_;
  std::vector<grpc::Slice> slices_;
};

// Reads through the pieces of a message.
class SliceReader {
 public:
  explicit SliceReader(std::vector<grpc::Slice> slices) : slices_(std::move(slices)) {}

  void operator()(char* to, size_t num_bytes) {
    while (num_bytes > 0 && index_ < slices_.size()) {
      const grpc::Slice& slice = slices_[index_];
      const size_t count = std::min(num_bytes, slice.size() - offset_);
      std::memcpy(to, slice.begin() + offset_, count);
      to += count;
      num_bytes -= count;
      offset_ += count;
      if (offset_ == slice.size()) {
        ++index_;
        offset_ = 0;
      }
    }
  }

 private:
  std::vector<grpc::Slice> slices_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

}  // namespace

grpc::ByteBuffer ToByteBuffer(const Frame& frame, bool is_framed) {
  SliceWriter writer;
  if (is_framed) {
    writer.AddBytes(FramePrologue::Encode(frame));
    writer.AddBytes(frame.header);
  }
  for (const Payload& payload : frame.payloads) writer.AddPayload(payload);
  return writer.Finish();
}

absl::StatusOr<Frame> FromByteBuffer(
    const grpc::ByteBuffer& buffer, bool is_framed,
    absl::FunctionRef<Payload(absl::string_view header, size_t index, size_t num_bytes)> place) {
  std::vector<grpc::Slice> slices;
  if (const grpc::Status dumped = buffer.Dump(&slices); !dumped.ok()) {
    return absl::InternalError(absl::StrCat("cannot read a message: ", dumped.error_message()));
  }
  const size_t num_bytes = buffer.Length();
  SliceReader reader(std::move(slices));
  if (is_framed) return DecodeFrame(num_bytes, std::move(reader), place);
  absl::StatusOr<Payload> payload = Payload::Allocate(num_bytes);
  if (!payload.ok()) return payload.status();
  reader(payload->mutable_data(), num_bytes);
  Frame frame;
  frame.payloads.push_back(*std::move(payload));
  return frame;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  std::string message(status.message());
  if (message.size() > kMaxStatusMessageBytes)
    message = message.substr(0, kMaxStatusMessageBytes) + "... (cut)";
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message);
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace weir
