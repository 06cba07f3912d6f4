// A reader of records: the resource behind TextLineReaderV2 and its kin. Its units of work are the strings of
// a queue, mostly names of files, and it reads one after the other.
//
// A read that finds no unit open waits at the queue for one, and holds no thread meanwhile. Several may wait
// at once: what each of them gets is read by whoever comes first. A unit is opened with the files of the
// session that reads it. Errors: those of the queue (OutOfRange when it is closed and empty), of files and of
// records; a unit that fails is left behind, one whose read is cancelled is not.
//
// Thread safety: all methods. A waiting read keeps the reader alive.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/resource_handle.h"
#include "kernels/cpu/data_flow/queue.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/input_stream.h"

namespace weir {

struct Record {
  std::string key, value;
};

// The records of one unit of work. One thread at a time.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // False at the end. One that is cancelled goes on where it was.
  virtual absl::StatusOr<bool> Next(Record& record, Cancellation& cancellation) = 0;
  // Nothing comes behind the record that Next gave: the unit is done with it.
  virtual bool is_at_end() const { return false; }
};

class Reader final : public Resource {
 public:
  static constexpr char kTypeName[] = "Reader";
  using Open =
      std::function<absl::StatusOr<std::unique_ptr<RecordSource>>(const std::string& work, FileSystem&)>;
  using Done = std::function<void(absl::StatusOr<std::vector<Record>>)>;

  // `kind`, with all that is asked of the reader, is what errors say of it. `can_be_saved`: see Serialize.
  Reader(std::string kind, std::string name, Open open, bool can_be_saved)
      : kind_(std::move(kind)), name_(std::move(name)), open_(std::move(open)), can_be_saved_(can_be_saved) {}

  // Up to `count` records of one unit, at least one. `files` and `queue` stay until `done` was called.
  void Read(RefPtr<Queue> queue, const Queue::Caller& caller, std::shared_ptr<FileSystem> files,
            int64_t count, Done done);
  // Forgets the open unit and what was counted.
  void Reset();

  // Where the reader is, for another one to go on. Only readers whose units are single records can say that,
  // Unimplemented of others; and InvalidArgument for a state that no such reader has between two reads.
  absl::StatusOr<std::string> Serialize() const;
  absl::Status Restore(absl::string_view state);

  const std::string& kind() const { return kind_; }
  int64_t num_records_produced() const;
  int64_t num_units_completed() const;
  std::string ToString() const override;

 private:
  struct Attempt;

  void Continue(std::shared_ptr<Attempt> attempt);
  // Records of the open unit or of one that waits; none when there is no unit.
  absl::StatusOr<std::vector<Record>> TryRead(Attempt& attempt);
  // What the queue gave. An error where nothing else can be read either.
  absl::Status Accept(Attempt& attempt);

  const std::string kind_, name_;
  const Open open_;
  const bool can_be_saved_;
  mutable absl::Mutex mutex_;
  std::deque<std::string> waiting_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<RecordSource> unit_ ABSL_GUARDED_BY(mutex_);
  std::string last_unit_ ABSL_GUARDED_BY(mutex_);
  int64_t num_records_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_units_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What an attr compression_type names; InvalidArgument for what is not known.
absl::StatusOr<Compression> CompressionOfReader(const std::string& name);

}  // namespace weir
