#include "graph/interchange/split_message.h"

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace weir {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedInputStream;
using ::google::protobuf::io::CodedOutputStream;

// The head of a piece: two varints.
bool ReadSize(CodedInputStream& in, size_t num_message_bytes, int* size) {
  uint32_t value = 0;
  if (!in.ReadVarint32(&value)) return false;
  if (value > num_message_bytes - in.CurrentPosition()) return false;
  *size = static_cast<int>(value);
  return true;
}

}  // namespace

absl::StatusOr<SplitMessage> SplitMessageBytes(absl::string_view message, int field) {
  const auto malformed = [&](int position) {
    return absl::InvalidArgumentError(
        absl::StrCat("Unable to parse a message of ", message.size(), " bytes: wrong at byte ", position));
  };
  if (message.size() > std::numeric_limits<int>::max()) return malformed(0);
  CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size()));
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  SplitMessage split;
  for (;;) {
    const int begin = in.CurrentPosition();
    const uint32_t tag = in.ReadTag();
    if (tag == 0) {
      if (begin != static_cast<int>(message.size())) return malformed(begin);
      return split;
    }
    if (WireFormatLite::GetTagFieldNumber(tag) != field) {
      if (!WireFormatLite::SkipField(&in, tag)) return malformed(begin);
      absl::StrAppend(&split.rest, message.substr(begin, in.CurrentPosition() - begin));
      continue;
    }
    int size = 0;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED ||
        !ReadSize(in, message.size(), &size)) {
      return malformed(begin);
    }
    split.pieces.push_back(message.substr(in.CurrentPosition(), size));
    if (!in.Skip(size)) return malformed(begin);
  }
}

void AppendPieceHead(int field, size_t num_bytes, std::string* message) {
  uint8_t bytes[20];
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(
      WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), bytes);
  end = CodedOutputStream::WriteVarint64ToArray(num_bytes, end);
  message->append(reinterpret_cast<const char*>(bytes), end - bytes);
}

}  // namespace weir
