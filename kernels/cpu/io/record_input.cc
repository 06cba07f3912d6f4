// RecordInput: batches of the records of TFRecord files, in random order, epoch after epoch.
//
// An epoch gives each record of the files that match the pattern then once. The files come in a random order,
// moved on by file_shuffle_shift_ratio of their number in each epoch; the records of file_parallelism of them
// are mixed in a buffer of file_buffer_size records, out of which they are drawn. As TensorFlow's
// (core/kernels/record_yielder.h), but in one order for one seed: files are read by whoever asks for a batch,
// not by threads of their own.
//
// Memory: at most kMostOpen files, and the buffer, which is full with kMostBytes of records. Its last record
// may go beyond that by any length that there is memory for; a longer one is ResourceExhausted. Files are
// those that the session may use (session_files.h), and may be anybody's.
#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellable_wait.h"
#include "kernels/cpu/io/matching_paths.h"
#include "kernels/cpu/io/reader.h"
#include "kernels/cpu/session_environment.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/record_io.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

constexpr int64_t kMostBytes = int64_t{256} << 20;
constexpr int64_t kMostOpen = 256;

struct RecordInputOptions {
  std::string pattern;
  int64_t seed = 0;
  float shift_ratio = 0;
  int64_t buffer_size = 0;
  int64_t parallelism = 0;
  Compression compression = Compression::kNone;
};

// The records, for all plans of a session: one step after another draws. An error is its last word, as in
// TensorFlow.
class RecordPool final : public NodeState {
 public:
  explicit RecordPool(RecordInputOptions options)
      : options_(std::move(options)), random_(static_cast<uint64_t>(options_.seed)) {}

  // Waits while another step draws. May block.
  absl::Status Next(FileSystem& files, Environment& environment, Cancellation& cancellation,
                    absl::Span<std::string> records) {
    WEIR_RETURN_IF_ERROR(TakeTurn(environment, cancellation));
    absl::Status status = error_;
    for (std::string& record : records) {
      if (status.ok()) status = Draw(files, cancellation, &record);
    }
    if (!cancellation.is_cancelled()) error_ = status;
    absl::MutexLock lock(&mutex_);
    is_taken_ = false;
    return status;
  }

 private:
  absl::Status TakeTurn(Environment& environment, Cancellation& cancellation) {
    return AwaitUnlessCancelled(
        environment, mutex_, cancellation, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !is_taken_; },
        [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { is_taken_ = true; });
  }

  // A record without characters takes its place in the buffer.
  static int64_t NumBytes(const std::string& record) {
    return static_cast<int64_t>(sizeof(record) + record.size());
  }

  absl::Status Draw(FileSystem& files, Cancellation& cancellation, std::string* record) {
    WEIR_RETURN_IF_ERROR(Fill(files, cancellation));
    if (buffer_.empty()) {
      WEIR_RETURN_IF_ERROR(BeginEpoch(files, cancellation));
      WEIR_RETURN_IF_ERROR(Fill(files, cancellation));
    }
    if (buffer_.empty()) {
      return absl::NotFoundError(absl::StrCat("Found no records in the files of ", options_.pattern));
    }
    std::swap(buffer_[random_() % buffer_.size()], buffer_.back());
    *record = std::move(buffer_.back());
    buffer_.pop_back();
    num_bytes_ -= NumBytes(*record);
    return absl::OkStatus();
  }

  absl::Status BeginEpoch(FileSystem& files, Cancellation& cancellation) {
    int64_t num_bytes_left = kMostBytesOfPaths;
    WEIR_ASSIGN_OR_RETURN(
        paths_, MatchingPaths(files, options_.pattern, PathKinds::kFiles, &num_bytes_left, cancellation));
    if (paths_.empty()) return absl::NotFoundError(absl::StrCat("Found no files at ", options_.pattern));
    for (size_t i = paths_.size() - 1; i > 0; --i) std::swap(paths_[i], paths_[random_() % (i + 1)]);
    const double shift = static_cast<double>(options_.shift_ratio) * static_cast<double>(num_epochs_);
    const double part = shift - std::floor(shift);
    const auto first = static_cast<int64_t>(part * static_cast<double>(paths_.size()));
    std::rotate(paths_.begin(), paths_.begin() + first, paths_.end());
    ++num_epochs_;
    next_path_ = 0;
    return absl::OkStatus();
  }

  // Until the buffer is full, or the epoch's files are at their ends.
  absl::Status Fill(FileSystem& files, Cancellation& cancellation) {
    const int64_t most_open = std::min(options_.parallelism, kMostOpen);
    while (static_cast<int64_t>(buffer_.size()) < options_.buffer_size && num_bytes_ < kMostBytes) {
      if (cancellation.is_cancelled()) return cancellation.reason();
      while (static_cast<int64_t>(open_.size()) < most_open && next_path_ < paths_.size()) {
        WEIR_ASSIGN_OR_RETURN(std::unique_ptr<RecordReader> reader,
                              RecordReader::Open(paths_[next_path_], options_.compression, files));
        open_.push_back(std::move(reader));
        ++next_path_;
      }
      if (open_.empty()) return absl::OkStatus();
      at_ = (at_ + 1) % open_.size();
      std::string record;
      WEIR_ASSIGN_OR_RETURN(const bool has_record, open_[at_]->ReadNext(&record));
      if (!has_record) {
        open_.erase(open_.begin() + static_cast<ptrdiff_t>(at_));
        continue;
      }
      num_bytes_ += NumBytes(record);
      buffer_.push_back(std::move(record));
    }
    return absl::OkStatus();
  }

  const RecordInputOptions options_;
  absl::Mutex mutex_;
  bool is_taken_ ABSL_GUARDED_BY(mutex_) = false;  // the turn
  // Of who has the turn:
  absl::Status error_;
  std::mt19937_64 random_;
  int64_t num_epochs_ = 0;
  std::vector<std::string> paths_;  // of the epoch
  size_t next_path_ = 0;
  std::vector<std::unique_ptr<RecordReader>> open_;
  size_t at_ = 0;  // which of them was read last
  std::vector<std::string> buffer_;
  int64_t num_bytes_ = 0;  // in it
};

class RecordInput final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    RecordInputOptions options = {.pattern = construction.attr<std::string>("file_pattern"),
                                  .seed = construction.attr<int64_t>("file_random_seed"),
                                  .shift_ratio = construction.attr<float>("file_shuffle_shift_ratio"),
                                  .buffer_size = construction.attr<int64_t>("file_buffer_size"),
                                  .parallelism = construction.attr<int64_t>("file_parallelism")};
    const int64_t batch_size = construction.attr<int64_t>("batch_size");
    if (options.buffer_size < 1 || options.parallelism < 1 || batch_size < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("file_buffer_size, file_parallelism and batch_size must be positive, are ",
                       options.buffer_size, ", ", options.parallelism, " and ", batch_size));
    }
    if (!std::isfinite(options.shift_ratio)) {
      return absl::InvalidArgumentError("file_shuffle_shift_ratio is no number");
    }
    WEIR_ASSIGN_OR_RETURN(options.compression,
                          CompressionOfReader(construction.attr<std::string>("compression_type")));
    const auto create = [&options] { return std::make_shared<RecordPool>(std::move(options)); };
    if (construction.session() == nullptr) {
      return std::make_unique<RecordInput>(create(), batch_size, construction);
    }
    WEIR_ASSIGN_OR_RETURN(std::shared_ptr<RecordPool> pool,
                          construction.session()->FindOrCreate<RecordPool>(
                              construction.device().name().ToString(), construction.node().name(), create));
    return std::make_unique<RecordInput>(std::move(pool), batch_size, construction);
  }

  RecordInput(std::shared_ptr<RecordPool> pool, int64_t batch_size, const KernelConstruction& construction)
      : pool_(std::move(pool)),
        batch_size_(batch_size),
        files_(FilesOf(construction)),
        environment_(EnvironmentOf(construction)) {}

  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(Tensor * records, context.AllocateOutput(0, Shape({batch_size_})));
    return pool_->Next(*files_, environment_, context.cancellation(), records->flat<std::string>());
  }

 private:
  const std::shared_ptr<RecordPool> pool_;
  const int64_t batch_size_;
  const std::shared_ptr<FileSystem> files_;
  Environment& environment_;
};

}  // namespace

void RegisterRecordInputKernels(DeviceKernels& kernels) { kernels.Add<RecordInput>("RecordInput"); }

}  // namespace weir
