// Event files: what TensorBoard shows.
//
// Format: a TFRecord file of tensorflow.Event messages, the first one with file_version "brain.Event:2",
// named events.out.tfevents.SECONDS.HOST.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "graph/types/tensor.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/record_io.h"

namespace tensorflow {
class Event;
}

namespace weir {

// Appends events to a file of its own.
//
// Thread safety: all methods may be called from any thread. Events reach other processes at Flush, and by
// themselves when the last flush is longer ago than Options::flush_interval. The first error (a full disk...)
// is returned by that call and by all later ones: losing summaries is the caller's decision.
class EventWriter {
 public:
  struct Options {
    FileSystem* file_system = &PosixFileSystem();
    absl::Duration flush_interval = absl::Seconds(30);
    std::string file_name_suffix;
    std::function<absl::Time()> clock = absl::Now;
  };

  // Creates `directory` if needed and a new file in it, and writes and flushes the version event.
  static absl::StatusOr<std::unique_ptr<EventWriter>> Create(const std::string& directory,
                                                             const Options& options);
  static absl::StatusOr<std::unique_ptr<EventWriter>> Create(const std::string& directory) {
    return Create(directory, Options());
  }
  ~EventWriter();

  const std::string& path() const { return path_; }

  absl::Status AddScalar(int64_t step, absl::string_view tag, float value);
  absl::Status AddHistogram(int64_t step, absl::string_view tag, const Tensor& values);
  // A serialized tensorflow.Summary, as summary ops output it. InvalidArgument when it does not parse.
  absl::Status AddSummary(int64_t step, absl::string_view serialized_summary);
  // A serialized tensorflow.Event. DataLoss when it does not parse.
  absl::Status AddSerializedEvent(absl::string_view serialized_event);
  // A serialized GraphDef or MetaGraphDef. DataLoss for a GraphDef that does not parse.
  absl::Status AddGraph(int64_t step, absl::string_view serialized_graph_def);
  absl::Status AddMetaGraph(int64_t step, absl::string_view serialized_meta_graph_def);
  enum class SessionStatus { kStart = 1, kStop = 2, kCheckpoint = 3 };
  absl::Status AddSessionLog(int64_t step, SessionStatus status, absl::string_view checkpoint_path = "");
  // A serialized RunMetadata of one step, shown under `tag`.
  absl::Status AddRunMetadata(int64_t step, absl::string_view tag, absl::string_view serialized_run_metadata);
  // Any event; wall_time is set when it is 0.
  absl::Status AddEvent(tensorflow::Event event);

  absl::Status Flush();
  absl::Status Close();

 private:
  EventWriter(std::string path, const Options& options, std::unique_ptr<RecordWriter> writer)
      : path_(std::move(path)), options_(options), writer_(std::move(writer)), last_flush_(options.clock()) {}
  absl::Status FlushLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const Options options_;
  absl::Mutex mutex_;
  const std::unique_ptr<RecordWriter> writer_ ABSL_PT_GUARDED_BY(mutex_);
  absl::Time last_flush_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// What is in an event, for programs without protocol buffers.
struct EventContent {
  double wall_time = 0;  // in seconds since the Unix epoch
  int64_t step = 0;
  std::vector<std::pair<std::string, float>> scalars;  // of a summary: tags and values
  std::vector<std::string> other_tags;                 // of its histograms, images, tensors...
  std::string graph_def;                               // serialized; empty for other events
  std::string meta_graph_def;
  std::optional<EventWriter::SessionStatus> session_status;
  std::string checkpoint_path;  // of kCheckpoint
};

// Reads the events of one file in order. Thread safety: one thread at a time.
class EventReader {
 public:
  static absl::StatusOr<std::unique_ptr<EventReader>> Open(const std::string& path,
                                                           FileSystem& file_system = PosixFileSystem());

  // Stores the next event and returns true; false at the end. DataLoss, naming path and offset, for damage. A
  // file that is still being written may end inside an event: that is DataLoss "truncated" too.
  absl::StatusOr<bool> ReadNext(EventContent* content);
  // The same for those who link TensorFlow's messages (graph/interchange/proto/event.proto).
  absl::StatusOr<bool> ReadNext(tensorflow::Event* event);

 private:
  EventReader(std::string path, std::unique_ptr<RecordReader> records)
      : path_(std::move(path)), records_(std::move(records)) {}

  const std::string path_;
  const std::unique_ptr<RecordReader> records_;
  std::string record_;
};

}  // namespace weir
