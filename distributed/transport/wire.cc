#include "distributed/transport/wire.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace weir {

void WireWriter::Unsigned(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
  bytes_.push_back(static_cast<char>(value));
}

void WireWriter::Fixed64(uint64_t value) {
  char bytes[8];
  std::memcpy(bytes, &value, sizeof(bytes));
  bytes_.append(bytes, sizeof(bytes));
}

void WireWriter::String(absl::string_view value) {
  Unsigned(value.size());
  bytes_.append(value.data(), value.size());
}

void WireWriter::StatusValue(const absl::Status& status) {
  Unsigned(static_cast<uint64_t>(status.code()));
  if (!status.ok()) String(status.message());
}

void WireWriter::Deadline(absl::Time deadline, absl::Time now) {
  const int64_t nanoseconds = absl::ToInt64Nanoseconds(deadline - now);
  // Also when it is centuries ahead, where the conversion saturates.
  if (nanoseconds == INT64_MAX) return Unsigned(0);
  Unsigned(nanoseconds <= 0 ? 1 : static_cast<uint64_t>(nanoseconds) + 1);
}

uint64_t WireReader::Unsigned() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return Fail();
    const uint64_t byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    if (shift == 63 && byte > 1) return Fail();
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return Fail();
}

uint64_t WireReader::UnsignedUpTo(uint64_t limit) {
  const uint64_t value = Unsigned();
  return value <= limit ? value : Fail();
}

int64_t WireReader::Signed() {
  const uint64_t value = Unsigned();
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

uint64_t WireReader::Fixed64() {
  if (rest_.size() < 8) return Fail();
  uint64_t value;
  std::memcpy(&value, rest_.data(), sizeof(value));
  rest_.remove_prefix(sizeof(value));
  return value;
}

absl::string_view WireReader::String() {
  const uint64_t size = Unsigned();
  if (size > rest_.size()) {
    Fail();
    return absl::string_view();
  }
  const absl::string_view value = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return value;
}

absl::Status WireReader::StatusValue() {
  const uint64_t code = UnsignedUpTo(16);
  return code == 0 ? absl::OkStatus() : absl::Status(static_cast<absl::StatusCode>(code), String());
}

absl::Time WireReader::Deadline(absl::Time now) {
  const uint64_t value = UnsignedUpTo(static_cast<uint64_t>(INT64_MAX));
  return value == 0 ? absl::InfiniteFuture() : now + absl::Nanoseconds(static_cast<int64_t>(value - 1));
}

size_t WireReader::Count() { return UnsignedUpTo(rest_.size()); }

absl::Status WireReader::Finish(absl::string_view what) const {
  if (ok_ && rest_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(ok_ ? absl::StrCat(what, ": ", rest_.size(), " bytes too many")
                                        : absl::StrCat(what, ": malformed or cut short"));
}

}  // namespace weir
