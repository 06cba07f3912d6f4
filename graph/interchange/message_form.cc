#include "graph/interchange/message_form.h"

#include <climits>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace weir {
namespace {

constexpr int kMaxNesting = 100;
constexpr size_t kMaxMessageBytes = 300;

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text.empty()) return;
    // The message repeats what it does not know, however long that is.
    const bool is_short = message.size() <= kMaxMessageBytes;
    text = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ",
                        is_short ? message : message.substr(0, kMaxMessageBytes) + "...");
  }
  std::string text;
};

}  // namespace

absl::Status ParseMessageBytes(absl::string_view bytes, absl::string_view what,
                               google::protobuf::MessageLite* message) {
  if (bytes.size() <= INT_MAX && message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(what, " does not parse (", bytes.size(), " bytes)"));
}

absl::Status ParseMessageText(const std::string& text, absl::string_view what,
                              google::protobuf::Message* message) {
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxNesting);
  if (parser.ParseFromString(text, message)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " does not parse: ", error.text));
}

absl::StatusOr<std::string> MessageBytes(const google::protobuf::MessageLite& message,
                                         absl::string_view what) {
  const size_t num_bytes = message.ByteSizeLong();
  if (num_bytes > INT_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " takes ", num_bytes, " bytes, more than the 2 GiB of a message"));
  }
  std::string bytes;
  bytes.reserve(num_bytes);
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeWithCachedSizes(&coded);
  coded.Trim();
  return bytes;
}

std::string MessageText(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

}  // namespace weir
