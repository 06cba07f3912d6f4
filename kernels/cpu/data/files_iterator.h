// An iterator over the records of one file after another.
//
// It has one file open. A file that cannot be opened, or read on, is an error, and the next call goes on with
// the file behind it. A saved position is a file and a number of its records, which are read again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/data/dataset.h"

namespace weir {

class FilesIterator : public Iterator {
 public:
  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) final;
  absl::Status Save(IteratorContext& context, PositionWriter& position) final;
  absl::Status Restore(IteratorContext& context, PositionReader& position) final;

 private:
  virtual const std::vector<std::string>& files() const = 0;
  // Also reads what comes before the first record.
  virtual absl::Status Open(size_t file) = 0;
  virtual void Close() = 0;
  // The next record of the open file; false at its end. A null element: it is only read past. What is wrong
  // with this record alone ends up in `*problem`: the file goes on behind it. One that is cancelled in a
  // record goes on there.
  virtual absl::StatusOr<bool> Read(Cancellation& cancellation, Element* element, absl::Status* problem) = 0;

  size_t file_ = 0;
  bool is_open_ = false;  // that file
  int64_t num_read_ = 0;  // of its records
};

}  // namespace weir
