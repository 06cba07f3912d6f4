// Messages as bytes and as text, with the errors and limits that files and clients call for.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class Message;
class MessageLite;
}  // namespace google::protobuf

namespace weir {

// InvalidArgument "WHAT does not parse" for bytes that are no such message.
absl::Status ParseMessageBytes(absl::string_view bytes, absl::string_view what,
                               google::protobuf::MessageLite* message);

// InvalidArgument with line, column and reason. Nesting is bounded, as it is for bytes.
absl::Status ParseMessageText(const std::string& text, absl::string_view what,
                              google::protobuf::Message* message);

// Equal messages give equal bytes (maps are sorted). InvalidArgument above 2 GiB.
absl::StatusOr<std::string> MessageBytes(const google::protobuf::MessageLite& message,
                                         absl::string_view what);

std::string MessageText(const google::protobuf::Message& message);

}  // namespace weir
