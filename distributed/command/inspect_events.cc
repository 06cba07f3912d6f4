#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "distributed/command/inspect_files.h"
#include "distributed/command/name_filter.h"
#include "distributed/command/scalar_plot.h"
#include "distributed/command/text_table.h"
#include "graph/interchange/proto/event.pb.h"
#include "graph/interchange/tensor_proto.h"
#include "graph/types/human_bytes.h"
#include "graph/types/printable_text.h"
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
  EventCount(size_t max_values, const NameFilter& filter)
      : max_values_(std::max<size_t>(max_values, 1)), filter_(filter) {}

  void Add(const Event& event) {
    if (num_events_++ == 0) first_time_ = event.wall_time();
    last_time_ = event.wall_time();
    switch (event.what_case()) {
      case Event::kSummary:
        for (const Summary::Value& value : event.summary().value()) {
          if (filter_.Matches(value.tag()))
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
    out << PrintableText(path) << ": " << Counted(num_events_, "event");
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
  const NameFilter& filter_;
  uint64_t num_events_ = 0;
  double first_time_ = 0;
  double last_time_ = 0;
  std::map<std::pair<std::string, std::string>, Series> series_;
};

// The number of a scalar, as TensorFlow 1 and 2 write it; none for other values.
absl::optional<double> ScalarOf(const Summary::Value& value) {
  if (value.value_case() == Summary::Value::kSimpleValue) return value.simple_value();
  if (value.value_case() != Summary::Value::kTensor) return absl::nullopt;
  // A few bytes may stand for a large tensor: it is not even made.
  for (const auto& dim : value.tensor().tensor_shape().dim()) {
    if (dim.size() != 1) return absl::nullopt;
  }
  const absl::StatusOr<Tensor> tensor = TensorFromProto(value.tensor());
  if (!tensor.ok() || tensor->dtype() != DType::kFloat32 || tensor->shape().num_elements() != 1)
    return absl::nullopt;
  return tensor->flat<float>()[0];
}

// The curves of all files, by tag: a job that was started again goes on in another file.
class Curves {
 public:
  explicit Curves(const NameFilter& filter) : filter_(filter) {}

  void Add(const Event& event) {
    for (const Summary::Value& value : event.summary().value()) {
      const absl::optional<double> scalar = ScalarOf(value);
      if (!scalar.has_value() || !filter_.Matches(value.tag())) continue;
      by_tag_.try_emplace(value.tag(), value.tag()).first->second.Add(event.step(), *scalar);
    }
  }

  absl::Status Print(const std::string& path, const InspectOptions& options, std::ostream& out) const {
    if (!options.plot && options.svg.empty()) return absl::OkStatus();
    if (by_tag_.empty()) {
      return absl::NotFoundError(absl::StrCat(
          path, " has no scalars", options.filter.empty() ? "" : " with tags like ", options.filter));
    }
    std::vector<ScalarCurve> curves;
    for (const auto& [tag, curve] : by_tag_) curves.push_back(curve);
    for (const ScalarCurve& curve : curves) {
      if (options.plot) out << "\n" << PlotInText(curve);
    }
    if (options.svg.empty()) return absl::OkStatus();
    WEIR_RETURN_IF_ERROR(WriteFileAtomically(PosixFileSystem(), options.svg, PlotInSvg(curves, path)));
    out << "drawn: " << Counted(curves.size(), "curve") << " in " << PrintableText(options.svg) << "\n";
    return absl::OkStatus();
  }

 private:
  const NameFilter& filter_;
  std::map<std::string, ScalarCurve> by_tag_;
};

absl::Status InspectFile(const std::string& path, const InspectOptions& options, const NameFilter& filter,
                         Curves* curves, std::ostream& out) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<EventReader> reader, EventReader::Open(path));
  EventCount count(options.steps, filter);
  absl::Status status;
  while (true) {
    Event event;
    const absl::StatusOr<bool> found = reader->ReadNext(&event);
    status = found.status();
    if (!found.ok() || !*found) break;
    count.Add(event);
    curves->Add(event);
  }
  count.Print(path, options.steps > 0, out);
  return status;
}

}  // namespace

absl::Status InspectEvents(const std::string& path, const InspectOptions& options, std::ostream& out) {
  const absl::StatusOr<std::vector<std::string>> names = PosixFileSystem().ListDirectory(path);
  const NameFilter filter(options.filter);
  Curves curves(filter);
  if (!names.ok()) {
    absl::Status status = InspectFile(path, options, filter, &curves, out);
    if (!absl::IsNotFound(status)) status.Update(curves.Print(path, options, out));
    return status;
  }
  absl::Status status;
  int num_files = 0;
  for (const std::string& name : *names) {
    if (!absl::StrContains(name, "tfevents")) continue;
    ++num_files;
    status.Update(InspectFile(JoinPath(path, name), options, filter, &curves, out));
  }
  if (num_files == 0) return absl::NotFoundError(absl::StrCat("the folder ", path, " has no event files"));
  status.Update(curves.Print(path, options, out));
  return status;
}

}  // namespace weir
