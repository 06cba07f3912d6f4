// Serialized messages without the large pieces in them, so that these need not be copied with the rest.
//
// A piece is a field of variable length: bytes, a string, a message. Format: protocol buffers' wire form.
// Functions without state, safe from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

struct SplitMessage {
  std::string rest;                       // the other fields, serialized, in their order
  std::vector<absl::string_view> pieces;  // what each occurrence of the field holds: parts of the message
};

// Takes the pieces of one field out. InvalidArgument when `message` is no message, or the field is no piece.
absl::StatusOr<SplitMessage> SplitMessageBytes(absl::string_view message, int field);

// Appends what stands before a piece: its field and its size.
void AppendPieceHead(int field, size_t num_bytes, std::string* message);

}  // namespace weir
