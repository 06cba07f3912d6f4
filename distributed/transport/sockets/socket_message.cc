#include "distributed/transport/sockets/socket_message.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/transport/wire.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kMaxPartsPerCall = 64;

using Kind = SocketMessage::Kind;

bool IsKind(uint32_t kind) {
  return kind >= static_cast<uint32_t>(Kind::kHello) && kind <= static_cast<uint32_t>(Kind::kWelcome);
}

enum class Form : uint64_t { kNoFrame, kFrame, kFrameWithLoans };

Form FormOf(const SocketMessage& message) {
  if (!message.has_frame) return Form::kNoFrame;
  return message.loans.empty() ? Form::kFrame : Form::kFrameWithLoans;
}

}  // namespace

std::string EncodeSocketMessage(const SocketMessage& message) {
  WireWriter writer;
  writer.String(message.text);
  writer.Unsigned(static_cast<uint64_t>(FormOf(message)));
  uint64_t num_payload_bytes = 0, num_lent_bytes = 0;
  for (const Payload& payload : message.frame.payloads) num_payload_bytes += payload.num_bytes();
  if (!message.loans.empty()) {
    writer.Unsigned(message.loans.size());
    for (const SocketMessage::Loan& loan : message.loans) {
      writer.Unsigned(loan.address);
      num_lent_bytes += loan.address == 0 ? 0 : loan.num_bytes;
    }
    writer.Unsigned(num_lent_bytes);
    num_payload_bytes -= num_lent_bytes;
  }
  std::string text = writer.Take();
  if (message.has_frame) {
    text += FramePrologue::Encode(message.frame);
    text += message.frame.header;
  }
  const uint32_t kind_and_size[2] = {static_cast<uint32_t>(message.kind), static_cast<uint32_t>(text.size())};
  std::string bytes(SocketMessageReader::kPrologueBytes, '\0');
  memcpy(bytes.data(), kind_and_size, 8);
  memcpy(bytes.data() + 8, &message.call, 8);
  memcpy(bytes.data() + 16, &num_payload_bytes, 8);
  return bytes + text;
}

absl::StatusOr<bool> SocketMessageReader::Read(int fd, Place place) {
  while (true) {
    if (part_ == Part::kPrologue && num_done_ == kPrologueBytes) {
      WEIR_RETURN_IF_ERROR(DecodePrologue());
    }
    if (part_ == Part::kText && num_done_ == text_.size()) {
      WEIR_RETURN_IF_ERROR(DecodeText());
      if (message_.has_frame) WEIR_RETURN_IF_ERROR(MakePlaces(place));
      ForgetText();
      part_ = Part::kPayloads;
      num_done_ = next_payload_ = 0;
    }
    if (part_ == Part::kPayloads) {
      std::vector<Payload>& payloads = message_.frame.payloads;
      while (next_payload_ < payloads.size() && num_done_ == payloads[next_payload_].num_bytes()) {
        ++next_payload_;
        num_done_ = 0;
      }
      if (next_payload_ == payloads.size()) {
        part_ = Part::kPrologue;
        num_done_ = 0;
        return true;
      }
    }
    WEIR_ASSIGN_OR_RETURN(const size_t num_read, Receive(fd));
    if (num_read == 0) return false;
  }
}

absl::Status SocketMessageReader::DecodePrologue() {
  uint32_t kind_and_size[2];
  memcpy(kind_and_size, prologue_, 8);
  message_ = SocketMessage();
  memcpy(&message_.call, prologue_ + 8, 8);
  memcpy(&num_payload_bytes_, prologue_ + 16, 8);
  if (!IsKind(kind_and_size[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message of the unknown kind ", kind_and_size[0], " came through a socket"));
  }
  message_.kind = static_cast<Kind>(kind_and_size[0]);
  if (kind_and_size[1] > max_text_bytes_ || num_payload_bytes_ > max_payload_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a message with a text of ", kind_and_size[1], " and payloads of ", num_payload_bytes_,
                     " bytes is above the limits of ", max_text_bytes_, " and ", max_payload_bytes_));
  }
  text_.resize(kind_and_size[1]);
  part_ = Part::kText;
  num_done_ = 0;
  return absl::OkStatus();
}

absl::Status SocketMessageReader::DecodeText() {
  WireReader reader(text_);
  message_.text = std::string(reader.String());
  const Form form = static_cast<Form>(reader.UnsignedUpTo(static_cast<uint64_t>(Form::kFrameWithLoans)));
  message_.has_frame = form != Form::kNoFrame;
  if (!message_.has_frame) {
    if (num_payload_bytes_ > 0) return absl::InvalidArgumentError("a message has payloads, but no frame");
    return reader.Finish("the text of a message");
  }
  uint64_t num_lent_bytes = 0;
  if (form == Form::kFrameWithLoans) WEIR_RETURN_IF_ERROR(DecodeLoans(&reader, &num_lent_bytes));
  const size_t num_left = reader.num_bytes_left();
  const absl::string_view frame = absl::string_view(text_).substr(text_.size() - num_left);
  const size_t num_frame_bytes = frame.size() + num_payload_bytes_ + num_lent_bytes;
  if (!reader.ok() || frame.size() < FramePrologue::kFixedBytes)
    return absl::InvalidArgumentError("the text of a message is cut short");
  WEIR_ASSIGN_OR_RETURN(frame_prologue_, FramePrologue::Decode(frame.data(), num_frame_bytes));
  const size_t header_begin = FramePrologue::kFixedBytes + frame_prologue_.num_size_bytes();
  if (header_begin + frame_prologue_.num_header_bytes() != frame.size())
    return absl::InvalidArgumentError("the text of a message does not end with its frame's header");
  WEIR_RETURN_IF_ERROR(
      frame_prologue_.DecodeSizes(frame.data() + FramePrologue::kFixedBytes, num_frame_bytes));
  message_.frame.header = std::string(frame.substr(header_begin));
  return form == Form::kFrameWithLoans ? CheckLoans(num_lent_bytes) : absl::OkStatus();
}

absl::StatusOr<size_t> SocketMessageReader::DecodeNumLoans(WireReader* reader) const {
  constexpr size_t kMinBytesPerLoan = 1 + 8;  // its address, and its size in the frame
  const uint64_t count = reader->Unsigned();
  if (!reader->ok()) return absl::InvalidArgumentError("the loans of a message are malformed");
  if (count > FramePrologue::kMaxPayloads) {
    return absl::InvalidArgumentError(absl::StrCat("a message says that it lends ", count,
                                                   " payloads, above the limit of ",
                                                   FramePrologue::kMaxPayloads));
  }
  const size_t room = reader->num_bytes_left() / kMinBytesPerLoan;
  if (count <= room) return count;
  return absl::InvalidArgumentError(absl::StrCat("a message says that it lends ", count,
                                                 " payloads, but its text has ", reader->num_bytes_left(),
                                                 " bytes left, which have room for ", room));
}

absl::Status SocketMessageReader::DecodeLoans(WireReader* reader, uint64_t* num_bytes) {
  if (!accepts_loans_) return absl::InvalidArgumentError("payloads were lent that nobody wants to borrow");
  WEIR_ASSIGN_OR_RETURN(const size_t count, DecodeNumLoans(reader));
  message_.loans.resize(count);
  for (SocketMessage::Loan& loan : message_.loans) loan.address = reader->Unsigned();
  *num_bytes = reader->UnsignedUpTo(max_payload_bytes_ - num_payload_bytes_);
  if (reader->ok()) return absl::OkStatus();
  return absl::InvalidArgumentError("the loans of a message are malformed, or too large");
}

absl::Status SocketMessageReader::CheckLoans(uint64_t num_bytes) {
  const std::vector<uint64_t>& sizes = frame_prologue_.payload_sizes();
  if (message_.loans.size() != sizes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message has ", sizes.size(), " payloads and ", message_.loans.size(), " loans"));
  }
  uint64_t sum = 0;  // cannot overflow: the sizes' sum is checked
  for (size_t i = 0; i < sizes.size(); ++i) {
    SocketMessage::Loan& loan = message_.loans[i];
    loan.num_bytes = sizes[i];
    if (loan.address != 0) sum += sizes[i];
  }
  if (sum == num_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a message lends ", sum, " bytes, but promised ", num_bytes));
}

absl::Status SocketMessageReader::MakePlaces(Place place) {
  std::vector<Payload>& payloads = message_.frame.payloads;
  payloads.reserve(frame_prologue_.payload_sizes().size());
  for (const uint64_t num_bytes : frame_prologue_.payload_sizes()) {
    if (!message_.loans.empty() && message_.loans[payloads.size()].address != 0) {
      payloads.emplace_back();
      continue;
    }
    absl::StatusOr<Payload> payload = place(message_, payloads.size(), num_bytes);
    if (payload->num_bytes() != num_bytes || num_bytes == 0) payload = Payload::Allocate(num_bytes);
    WEIR_RETURN_IF_ERROR(payload.status());
    payloads.push_back(*std::move(payload));
  }
  return absl::OkStatus();
}

void SocketMessageReader::ForgetText() {
  if (text_.capacity() > kMaxKeptTextBytes) std::string().swap(text_);
  frame_prologue_ = FramePrologue();
}

absl::StatusOr<size_t> SocketMessageReader::Receive(int fd) {
  iovec parts[kMaxPartsPerCall];
  int num_parts = 0;
  if (part_ == Part::kPrologue) {
    parts[num_parts++] = {prologue_ + num_done_, kPrologueBytes - num_done_};
  } else if (part_ == Part::kText) {
    parts[num_parts++] = {text_.data() + num_done_, text_.size() - num_done_};
  } else {
    size_t begin = num_done_;
    for (size_t i = next_payload_; i < message_.frame.payloads.size() && num_parts < kMaxPartsPerCall; ++i) {
      Payload& payload = message_.frame.payloads[i];
      if (payload.num_bytes() > begin) {
        parts[num_parts++] = {payload.mutable_data() + begin, payload.num_bytes() - begin};
      }
      begin = 0;
    }
  }
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = num_parts;
  ssize_t count = 0;
  do {
    count = recvmsg(fd, &header, MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count == 0) return absl::UnavailableError("the other side has closed the connection");
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return size_t{0};
  if (count < 0) return absl::UnavailableError(absl::StrCat("the connection broke: ", strerror(errno)));
  const size_t num_read = static_cast<size_t>(count);
  num_done_ += num_read;
  if (part_ == Part::kPayloads) {
    std::vector<Payload>& payloads = message_.frame.payloads;
    while (num_done_ > payloads[next_payload_].num_bytes()) {
      num_done_ -= payloads[next_payload_++].num_bytes();
    }
  }
  return num_read;
}

}  // namespace weir
