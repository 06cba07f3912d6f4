// Where a reader of records is, as the message that TensorFlow's readers save (ReaderBaseState).
//
// Functions without state; safe from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

struct ReaderState {
  int64_t num_units_begun = 0;
  int64_t num_units_completed = 0;
  int64_t num_records = 0;
  std::string last_unit;
};

std::string SerializedReaderState(const ReaderState& state);
// InvalidArgument for bytes that are no such message.
absl::StatusOr<ReaderState> ParseReaderState(absl::string_view bytes);

}  // namespace weir
