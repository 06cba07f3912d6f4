// Writing and reading the headers of messages: varints and length-prefixed strings, without protobuf.
//
// A reader never reads beyond its text and never allocates for a length that the text does not have: every
// method fails for good once one has failed, so that a decoder checks `status()` only at its end.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace weir {

class WireWriter {
 public:
  // Base 128, 7 bits a byte, least significant first.
  void Unsigned(uint64_t value);
  // Zigzag: small negative numbers stay short.
  void Signed(int64_t value) {
    Unsigned((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }
  void Fixed64(uint64_t value);
  void String(absl::string_view value);
  void StatusValue(const absl::Status& status);
  // How long from `now`, the writer's time: clocks of two machines differ. Infinite is kept.
  void Deadline(absl::Time deadline, absl::Time now);

  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : rest_(bytes) {}

  uint64_t Unsigned();
  // Fails when the value is above `limit`.
  uint64_t UnsignedUpTo(uint64_t limit);
  int64_t Signed();
  uint64_t Fixed64();
  // A view into the text.
  absl::string_view String();
  absl::Status StatusValue();
  // `now`: the reader's time.
  absl::Time Deadline(absl::Time now);
  // For a list: its length, which cannot exceed the bytes that are left (every element takes one at least).
  size_t Count();

  size_t num_bytes_left() const { return rest_.size(); }
  bool ok() const { return ok_; }
  // InvalidArgument naming `what` unless everything was read and nothing is left.
  absl::Status Finish(absl::string_view what) const;

 private:
  uint64_t Fail() {
    ok_ = false;
    rest_ = absl::string_view();
    return 0;
  }

  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace weir
