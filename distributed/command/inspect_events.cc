#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "distributed/command/inspect_files.h"
#include "distributed/command/text_table.h"
#include "graph/interchange/proto/event.pb.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/event_file.h"

namespace weir {
namespace {

using ::tensorflow::Event;
using ::tensorflow::Summary;

// What is known of one tag, or of events of another kind ("graph").
struct Series {
  std::string kind;
  uint64_t count = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  std::vector<std::pair<int64_t, std::string>> values;  // step and text, the last few

  void Add(int64_t step, std::string value, size_t max_values) {
    if (count++ == 0) first_step = step;
    last_step = step;
    values.emplace_back(step, std::move(value));
    if (values.size() > max_values) values.erase(values.begin());
  }
};

std::string ValueText(const Summary::Value& value) {
  switch (value.value_case()) {
    case Summary::Value::kSimpleValue:
      return absl::StrCat(value.simple_value());
    case Summary::Value::kHisto:
      return absl::StrCat(value.histo().num(), " values in [", value.histo().min(), ", ", value.histo().max(),
                          "]");
    case Summary::Value::kImage:
      return absl::StrCat(value.image().width(), " x ", value.image().height());
    default:
      return "";
  }
}

std::string KindText(const Summary::Value& value) {
  switch (value.value_case()) {
    case Summary::Value::kSimpleValue:
      return "scalar";
    case Summary::Value::kHisto:
      return "histogram";
    case Summary::Value::kImage:
      return "image";
    case Summary::Value::kAudio:
      return "audio";
    case Summary::Value::kTensor:
      return "tensor";
    default:
      return "unknown";
  }
}

std::string SessionText(const tensorflow::SessionLog& log) {
  return absl::StrCat(tensorflow::SessionLog::SessionStatus_Name(log.status()),
                      log.checkpoint_path().empty() ? "" : " ", log.checkpoint_path());
}

class EventCount {
 public:
  explicit EventCount(size_t max_values) : max_values_(std::max<size_t>(max_values, 1)) {}

  void Add(const Event& event) {
    if (num_events_++ == 0) first_time_ = event.wall_time();
    last_time_ = event.wall_time();
    switch (event.what_case()) {
      case Event::kSummary:
        for (const Summary::Value& value : event.summary().value()) {
          Note(value.tag(), KindText(value), event.step(), ValueText(value));
        }
        break;
      case Event::kGraphDef:
        Note("", "graph", event.step(), HumanBytes(event.graph_def().size()));
        break;
      case Event::kMetaGraphDef:
        Note("", "meta graph", event.step(), HumanBytes(event.meta_graph_def().size()));
        break;
      case Event::kSessionLog:
        Note("", "session log", event.step(), SessionText(event.session_log()));
        break;
      case Event::kTaggedRunMetadata:
        Note("", "run metadata", event.step(), event.tagged_run_metadata().tag());
        break;
      case Event::kLogMessage:
        Note("", "log message", event.step(), event.log_message().message());
        break;
      default:
        break;
    }
  }

  void Print(const std::string& path, bool show_steps, std::ostream& out) const {
    out << path << ": " << Counted(num_events_, "event");
    if (num_events_ > 0) out << " from " << TimeText(first_time_) << " to " << TimeText(last_time_);
    out << "\n";
    TextTable table({2});
    for (const auto& [key, series] : series_) {
      const std::string steps = series.first_step == series.last_step
                                    ? absl::StrCat("step ", series.last_step)
                                    : absl::StrCat("steps ", series.first_step, "-", series.last_step);
      table.AddRow({series.kind, key.second, WithThousands(series.count), steps,
                    "last: " + series.values.back().second});
      for (size_t i = 0; show_steps && i < series.values.size(); ++i) {
        table.AddRow({"", "", "", absl::StrCat("  step ", series.values[i].first), series.values[i].second});
      }
    }
    table.Print(out);
  }

 private:
  void Note(const std::string& tag, const std::string& kind, int64_t step, std::string value) {
    Series& series = series_[{kind, tag}];
    series.kind = kind;
    series.Add(step, std::move(value), max_values_);
  }

  static std::string TimeText(double seconds) {
    return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::UnixEpoch() + absl::Seconds(seconds),
                            absl::UTCTimeZone()) +
           " UTC";
  }

  const size_t max_values_;
  uint64_t num_events_ = 0;
  double first_time_ = 0;
  double last_time_ = 0;
  std::map<std::pair<std::string, std::string>, Series> series_;
};

absl::Status InspectFile(const std::string& path, const InspectOptions& options, std::ostream& out) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<EventReader> reader, EventReader::Open(path));
  EventCount count(options.steps);
  absl::Status status;
  while (true) {
    Event event;
    const absl::StatusOr<bool> found = reader->ReadNext(&event);
    status = found.status();
    if (!found.ok() || !*found) break;
    count.Add(event);
  }
  count.Print(path, options.steps > 0, out);
  return status;
}

}  // namespace

absl::Status InspectEvents(const std::string& path, const InspectOptions& options, std::ostream& out) {
  const absl::StatusOr<std::vector<std::string>> names = PosixFileSystem().ListDirectory(path);
  if (!names.ok()) return InspectFile(path, options, out);
  absl::Status status;
  int num_files = 0;
  for (const std::string& name : *names) {
    if (!absl::StrContains(name, "tfevents")) continue;
    ++num_files;
    status.Update(InspectFile(JoinPath(path, name), options, out));
  }
  if (num_files == 0) return absl::NotFoundError(absl::StrCat("the folder ", path, " has no event files"));
  return status;
}

}  // namespace weir
