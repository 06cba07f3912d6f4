#include "kernels/cpu/io/reader.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/reader_state.h"

namespace weir {

struct Reader::Attempt {
  RefPtr<Queue> queue;
  const Queue::Caller caller;
  std::shared_ptr<FileSystem> files;
  const int64_t count;
  const Done done;
  // Of the queue's answer and the thread that asked for it: the second one goes on.
  std::atomic<bool> is_second = false;
  absl::StatusOr<std::vector<Tensor>> answer = std::vector<Tensor>();
};

void Reader::Read(RefPtr<Queue> queue, const Queue::Caller& caller, std::shared_ptr<FileSystem> files,
                  int64_t count, Done done) {
  if (count < 1) {
    return done(absl::InvalidArgumentError(absl::StrCat("num_records must be positive, is ", count)));
  }
  if (queue->spec().types != std::vector<DType>{DType::kString}) {
    return done(absl::InvalidArgumentError(
        absl::StrCat("a reader needs a queue with one component of strings, not ", queue->ToString())));
  }
  Continue(std::shared_ptr<Attempt>(
      new Attempt{std::move(queue), caller, std::move(files), count, std::move(done)}));
}

// The queue may answer while it is asked. A loop, not a recursion: any number of units may be empty.
void Reader::Continue(std::shared_ptr<Attempt> attempt) {
  while (true) {
    absl::StatusOr<std::vector<Record>> records = TryRead(*attempt);
    if (!records.ok() || !records->empty()) return attempt->done(std::move(records));
    attempt->is_second = false;
    attempt->queue->Dequeue(attempt->caller, [self = RefPtr<Reader>::Share(this),
                                              attempt](absl::StatusOr<std::vector<Tensor>> answer) {
      attempt->answer = std::move(answer);
      if (!attempt->is_second.exchange(true)) return;
      if (absl::Status status = self->Accept(*attempt); !status.ok()) return attempt->done(std::move(status));
      self->Continue(attempt);
    });
    if (!attempt->is_second.exchange(true)) return;
    if (absl::Status status = Accept(*attempt); !status.ok()) return attempt->done(std::move(status));
  }
}

absl::Status Reader::Accept(Attempt& attempt) {
  const absl::MutexLock lock(&mutex_);
  if (!attempt.answer.ok()) {
    // Another read may have got the last unit, and left records of it.
    const bool has_more = unit_ != nullptr || !waiting_.empty();
    const bool is_cancelled = attempt.caller.cancellation.is_cancelled();
    return has_more && !is_cancelled ? absl::OkStatus() : attempt.answer.status();
  }
  const Tensor& work = (*attempt.answer)[0];
  if (work.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a unit of work must be one string, is ", work.shape().ToString()));
  }
  waiting_.push_back(work.scalar<std::string>());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Record>> Reader::TryRead(Attempt& attempt) {
  const absl::MutexLock lock(&mutex_);
  // A step gets no more than this at once, however many records it asks for: files may be larger than memory.
  constexpr size_t kMostBytes = size_t{1} << 30;
  std::vector<Record> records;
  size_t num_bytes = 0;
  while (records.empty()) {
    if (unit_ == nullptr) {
      if (waiting_.empty()) return records;
      last_unit_ = std::move(waiting_.front());
      waiting_.pop_front();
      WEIR_ASSIGN_OR_RETURN(unit_, open_(last_unit_, *attempt.files));
    }
    while (unit_ != nullptr && static_cast<int64_t>(records.size()) < attempt.count &&
           num_bytes < kMostBytes) {
      Record record;
      absl::StatusOr<bool> has_record = unit_->Next(record, attempt.caller.cancellation);
      if (!has_record.ok()) {
        const Cancellation& cancellation = attempt.caller.cancellation;
        const bool was_cancelled =
            cancellation.is_cancelled() && has_record.status() == cancellation.reason();
        if (!was_cancelled) unit_ = nullptr;
        return has_record.status();
      }
      if (*has_record) {
        num_bytes += record.key.size() + record.value.size() + sizeof(Record);
        records.push_back(std::move(record));
        ++num_records_;
      }
      if (!*has_record || unit_->is_at_end()) {
        unit_ = nullptr;
        ++num_units_;
      }
    }
  }
  return records;
}

void Reader::Reset() {
  const absl::MutexLock lock(&mutex_);
  waiting_.clear();
  unit_ = nullptr;
  last_unit_.clear();
  num_records_ = num_units_ = 0;
}

absl::StatusOr<std::string> Reader::Serialize() const {
  if (!can_be_saved_) return absl::UnimplementedError("Reader SerializeState");
  const absl::MutexLock lock(&mutex_);
  return SerializedReaderState({num_units_, num_units_, num_records_, last_unit_});
}

absl::Status Reader::Restore(absl::string_view bytes) {
  if (!can_be_saved_) return absl::UnimplementedError("Reader RestoreState");
  absl::StatusOr<ReaderState> parsed = ParseReaderState(bytes);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Could not parse state for ", ToString(), ": ", parsed.status().message()));
  }
  ReaderState state = *std::move(parsed);
  const auto refuse = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " when restoring in ", ToString(), ": ", state.num_units_begun, " units begun, ",
                     state.num_units_completed, " completed, ", state.num_records, " records"));
  };
  if (state.num_units_begun < 0 || state.num_units_completed < 0 || state.num_records < 0) {
    return refuse("Unexpected negative value");
  }
  if (state.num_units_begun > state.num_units_completed) {
    return refuse("Inconsistent work started vs. finished");
  }
  const absl::MutexLock lock(&mutex_);
  waiting_.clear();
  unit_ = nullptr;
  num_units_ = state.num_units_completed;
  num_records_ = state.num_records;
  last_unit_ = std::move(state.last_unit);
  return absl::OkStatus();
}

int64_t Reader::num_records_produced() const {
  const absl::MutexLock lock(&mutex_);
  return num_records_;
}

int64_t Reader::num_units_completed() const {
  const absl::MutexLock lock(&mutex_);
  return num_units_;
}

std::string Reader::ToString() const { return absl::StrCat(kind_, " '", name_, "'"); }

absl::StatusOr<Compression> CompressionOfReader(const std::string& name) {
  if (name.empty()) return Compression::kNone;
  if (name == "GZIP") return Compression::kGzip;
  if (name == "ZLIB") return Compression::kZlib;
  return absl::InvalidArgumentError(
      absl::StrCat("compression_type is '", name, "', must be '', 'GZIP' or 'ZLIB'"));
}

}  // namespace weir
