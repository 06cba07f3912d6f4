#include "distributed/election/authority_store.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "distributed/life.h"

namespace weir {
namespace {

constexpr size_t kMaxRecordBytes = 1000;

}  // namespace

std::string AuthorityRecord::Encode() const {
  return absl::StrCat("weir 1 ", term, " ", task.job, " ", task.index, " ", candidate, " ", beat, " ",
                      has_ended ? 1 : 0);
}

absl::StatusOr<AuthorityRecord> AuthorityRecord::Decode(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text.substr(0, kMaxRecordBytes), ' ');
  AuthorityRecord record;
  int ended = 0;
  const bool is_record = parts.size() == 8 && parts[0] == "weir" && parts[1] == "1" &&
                         absl::SimpleAtoi(parts[2], &record.term) && !parts[3].empty() &&
                         absl::SimpleAtoi(parts[4], &record.task.index) && record.task.index >= 0 &&
                         absl::SimpleAtoi(parts[5], &record.candidate) &&
                         absl::SimpleAtoi(parts[6], &record.beat) && absl::SimpleAtoi(parts[7], &ended);
  if (is_record) record.task.job = std::string(parts[3]);
  record.has_ended = ended != 0;
  // A greater term leaves no room for lives. The store compares texts.
  if (!is_record || record.term == 0 || record.term > kLastTerm || record.Encode() != text) {
    return absl::DataLossError(
        absl::StrCat("'", text.substr(0, 100), "' does not say which task is the authority"));
  }
  return record;
}

}  // namespace weir
