#include "kernels/cpu/data/files_iterator.h"

#include "absl/strings/str_cat.h"

namespace weir {

absl::StatusOr<bool> FilesIterator::Next(IteratorContext& context, Element* element) {
  while (file_ < files().size()) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    if (!is_open_) {
      const absl::Status opened = Open(file_);
      if (!opened.ok()) {
        Close();
        ++file_;
        return opened;
      }
      is_open_ = true;
      num_read_ = 0;
    }
    absl::Status problem;
    const absl::StatusOr<bool> has_record = Read(context.cancellation, element, &problem);
    if (has_record.ok() && *has_record) {
      ++num_read_;
      if (!problem.ok()) return problem;
      return true;
    }
    // The file goes on in the next step. Not behind an error of its own: that would be lost.
    const bool was_cancelled =
        context.cancellation.is_cancelled() && has_record.status() == context.cancellation.reason();
    if (was_cancelled) return has_record.status();
    Close();
    is_open_ = false;
    ++file_;
    if (!has_record.ok()) return has_record.status();
  }
  return false;
}

absl::Status FilesIterator::Save(IteratorContext&, PositionWriter& position) {
  position.Add(static_cast<int64_t>(file_));
  position.Add(is_open_ ? num_read_ : int64_t{-1});
  return absl::OkStatus();
}

absl::Status FilesIterator::Restore(IteratorContext& context, PositionReader& position) {
  const auto num_files = static_cast<int64_t>(files().size());
  WEIR_ASSIGN_OR_RETURN(file_, position.NextNumber(0, num_files));
  WEIR_ASSIGN_OR_RETURN(const int64_t num_read, position.NextNumber(-1, INT64_MAX));
  Close();
  is_open_ = false;
  if (num_read < 0 || static_cast<int64_t>(file_) == num_files) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(Open(file_));
  is_open_ = true;
  for (num_read_ = 0; num_read_ < num_read; ++num_read_) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    absl::Status problem;
    WEIR_ASSIGN_OR_RETURN(const bool has_record, Read(context.cancellation, nullptr, &problem));
    if (has_record) continue;
    return absl::DataLossError(absl::StrCat(files()[file_], " has ", num_read_,
                                            " records; the saved position is behind ", num_read));
  }
  return absl::OkStatus();
}

}  // namespace weir
