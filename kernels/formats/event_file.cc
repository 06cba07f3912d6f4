#include "kernels/formats/event_file.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/event.pb.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/summary.h"

namespace weir {
namespace {

constexpr char kFileVersion[] = "brain.Event:2";

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

// Two writers may begin in the same second and folder (two sessions, of one process or of several, or a quick
// restart): the name that one has taken belongs to it.
absl::StatusOr<std::unique_ptr<WritableFile>> CreateFile(const std::string& directory,
                                                         const EventWriter::Options& options) {
  constexpr int kMaxWriters = 10000;
  const std::string stem = JoinPath(
      directory,
      absl::StrFormat("events.out.tfevents.%010d.%s", absl::ToUnixSeconds(options.clock()), HostName()));
  auto file = options.file_system->CreateNew(stem + options.file_name_suffix);
  for (int i = 1; absl::IsAlreadyExists(file.status()) && i < kMaxWriters; ++i) {
    file = options.file_system->CreateNew(absl::StrCat(stem, ".", i, options.file_name_suffix));
  }
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventWriter>> EventWriter::Create(const std::string& directory,
                                                                 const Options& options) {
  if (options.file_system == nullptr || !options.clock) {
    return absl::InvalidArgumentError(
        absl::StrCat("an event writer needs a file system and a clock, for the folder '", directory, "'"));
  }
  WEIR_RETURN_IF_ERROR(CreateDurableDirectories(*options.file_system, directory));
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, CreateFile(directory, options));
  const std::string path = file->path();
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<RecordWriter> records,
                        RecordWriter::Create(std::move(file), Compression::kNone));
  std::unique_ptr<EventWriter> writer(new EventWriter(path, options, std::move(records)));
  tensorflow::Event version;
  version.set_file_version(kFileVersion);
  version.mutable_source_metadata()->set_writer("weir");
  WEIR_RETURN_IF_ERROR(writer->AddEvent(std::move(version)));
  WEIR_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

EventWriter::~EventWriter() { Close().IgnoreError(); }

absl::Status EventWriter::AddEvent(tensorflow::Event event) {
  const absl::Time now = options_.clock();
  if (event.wall_time() == 0) event.set_wall_time(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
  std::string record;
  if (!event.SerializeToString(&record)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": an event of step ", event.step(), " exceeds 2 GiB"));
  }
  absl::MutexLock lock(&mutex_);
  if (!error_.ok()) return error_;
  if (is_closed_) return absl::FailedPreconditionError(absl::StrCat(path_, " is closed"));
  error_ = writer_->Write(record);
  if (error_.ok() && now - last_flush_ > options_.flush_interval) return FlushLocked();
  return error_;
}

absl::Status EventWriter::AddScalar(int64_t step, absl::string_view tag, float value) {
  return AddSummary(step, ScalarSummary(tag, value));
}

absl::Status EventWriter::AddHistogram(int64_t step, absl::string_view tag, const Tensor& values) {
  WEIR_ASSIGN_OR_RETURN(const std::string summary, HistogramSummary(tag, values));
  return AddSummary(step, summary);
}

absl::Status EventWriter::AddSummary(int64_t step, absl::string_view serialized_summary) {
  tensorflow::Event event;
  event.set_step(step);
  WEIR_RETURN_IF_ERROR(ParseMessageBytes(serialized_summary, absl::StrCat("the summary of step ", step),
                                         event.mutable_summary()));
  return AddEvent(std::move(event));
}

absl::Status EventWriter::AddSerializedEvent(absl::string_view serialized_event) {
  tensorflow::Event event;
  if (const absl::Status status = ParseMessageBytes(serialized_event, "the event", &event); !status.ok()) {
    return absl::DataLossError(status.message());
  }
  return AddEvent(std::move(event));
}

absl::Status EventWriter::AddGraph(int64_t step, absl::string_view serialized_graph_def) {
  tensorflow::GraphDef graph;
  if (const absl::Status status =
          ParseMessageBytes(serialized_graph_def, absl::StrCat("the graph of step ", step), &graph);
      !status.ok()) {
    return absl::DataLossError(status.message());
  }
  tensorflow::Event event;
  event.set_step(step);
  event.set_graph_def(std::string(serialized_graph_def));
  return AddEvent(std::move(event));
}

absl::Status EventWriter::AddMetaGraph(int64_t step, absl::string_view serialized_meta_graph_def) {
  tensorflow::Event event;
  event.set_step(step);
  event.set_meta_graph_def(std::string(serialized_meta_graph_def));
  return AddEvent(std::move(event));
}

absl::Status EventWriter::AddSessionLog(int64_t step, SessionStatus status,
                                        absl::string_view checkpoint_path) {
  tensorflow::Event event;
  event.set_step(step);
  event.mutable_session_log()->set_status(static_cast<tensorflow::SessionLog::SessionStatus>(status));
  event.mutable_session_log()->set_checkpoint_path(std::string(checkpoint_path));
  return AddEvent(std::move(event));
}

absl::Status EventWriter::AddRunMetadata(int64_t step, absl::string_view tag,
                                         absl::string_view serialized_run_metadata) {
  tensorflow::Event event;
  event.set_step(step);
  event.mutable_tagged_run_metadata()->set_tag(std::string(tag));
  event.mutable_tagged_run_metadata()->set_run_metadata(std::string(serialized_run_metadata));
  return AddEvent(std::move(event));
}

absl::Status EventWriter::FlushLocked() {
  if (!error_.ok()) return error_;
  error_ = writer_->Flush();
  last_flush_ = options_.clock();
  return error_;
}

absl::Status EventWriter::Flush() {
  absl::MutexLock lock(&mutex_);
  return is_closed_ ? error_ : FlushLocked();
}

absl::Status EventWriter::Close() {
  absl::MutexLock lock(&mutex_);
  if (is_closed_) return error_;
  is_closed_ = true;
  const absl::Status closed = writer_->Close();
  if (error_.ok()) error_ = closed;
  return error_;
}

absl::StatusOr<std::unique_ptr<EventReader>> EventReader::Open(const std::string& path,
                                                               FileSystem& file_system) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<RecordReader> records,
                        RecordReader::Open(path, Compression::kNone, file_system));
  return std::unique_ptr<EventReader>(new EventReader(path, std::move(records)));
}

absl::StatusOr<bool> EventReader::ReadNext(EventContent* content) {
  tensorflow::Event event;
  WEIR_ASSIGN_OR_RETURN(const bool found, ReadNext(&event));
  if (!found) return false;
  *content = EventContent();
  content->wall_time = event.wall_time();
  content->step = event.step();
  for (const tensorflow::Summary::Value& value : event.summary().value()) {
    if (value.value_case() == tensorflow::Summary::Value::kSimpleValue) {
      content->scalars.emplace_back(value.tag(), value.simple_value());
    } else {
      content->other_tags.push_back(value.tag());
    }
  }
  content->graph_def = event.graph_def();
  content->meta_graph_def = event.meta_graph_def();
  if (event.has_session_log()) {
    content->session_status = static_cast<EventWriter::SessionStatus>(event.session_log().status());
    content->checkpoint_path = event.session_log().checkpoint_path();
  }
  return true;
}

absl::StatusOr<bool> EventReader::ReadNext(tensorflow::Event* event) {
  const uint64_t offset = records_->offset();
  // A message has no more bytes, and the parser would take a longer record for a shorter one.
  constexpr uint64_t kMostBytes = INT32_MAX;
  WEIR_ASSIGN_OR_RETURN(const bool found, records_->ReadNext(&record_, kMostBytes));
  if (!found) return false;
  if (!event->ParseFromString(record_)) {
    return absl::DataLossError(absl::StrCat(path_, ": the record at byte ", offset, " is no event"));
  }
  return true;
}

}  // namespace weir
