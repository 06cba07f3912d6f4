#include "session/monitored/hooks/chrome_trace.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace weir {
namespace {

std::string Quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&result, "\\", std::string(1, c));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&result, "\\u%04x", c);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string Micros(int64_t nanos) { return absl::StrFormat("%d.%03d", nanos / 1000, nanos % 1000); }

class TraceWriter {
 public:
  void AddDevice(const DeviceStats& device, size_t process) {
    events_.push_back(absl::StrCat(R"({"name":"process_name","ph":"M","pid":)", process,
                                   R"(,"args":{"name":)", Quoted(device.device), "}}"));
    for (const NodeStats& node : device.nodes) {
      AddBox(node, process);
      producers_[node.node] = {process, &node};
    }
  }

  // After all devices: a tensor's consumer may come before its producer in the list.
  void AddArrows(const DeviceStats& device, size_t process) {
    for (const NodeStats& node : device.nodes) {
      for (const std::string& input : node.inputs) {
        const auto producer = producers_.find(input);
        if (producer == producers_.end()) continue;
        const auto& [from_process, from] = producer->second;
        ++num_arrows_;
        AddArrowEnd("s", from_process, from->thread, from->end_nanos);
        AddArrowEnd("t", process, node.thread, node.begin_nanos);
      }
    }
  }

  std::string Finish() const {
    return absl::StrCat("{\"traceEvents\":[\n", absl::StrJoin(events_, ",\n"), "\n]}\n");
  }

 private:
  void AddBox(const NodeStats& node, size_t process) {
    std::string args = absl::StrCat(R"({"name":)", Quoted(node.node), R"(,"op":)", Quoted(node.op));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      absl::StrAppend(&args, ",\"input", i, "\":", Quoted(node.inputs[i]));
    }
    events_.push_back(absl::StrCat(R"({"ph":"X","cat":"Op","name":)", Quoted(node.op), ",\"pid\":", process,
                                   ",\"tid\":", node.thread, ",\"ts\":", Micros(node.begin_nanos),
                                   ",\"dur\":", Micros(node.end_nanos - node.begin_nanos), ",\"args\":", args,
                                   "}}"));
  }

  void AddArrowEnd(const char* phase, size_t process, uint32_t thread, int64_t nanos) {
    events_.push_back(absl::StrCat("{\"ph\":\"", phase, R"(","cat":"DataFlow","name":"tensor","id":)",
                                   num_arrows_, ",\"pid\":", process, ",\"tid\":", thread,
                                   ",\"ts\":", Micros(nanos), "}"));
  }

  std::vector<std::string> events_;
  std::map<std::string, std::pair<size_t, const NodeStats*>> producers_;  // by node; its last run
  int num_arrows_ = 0;
};

}  // namespace

std::string ChromeTrace(const StepStats& stats, const ChromeTraceOptions& options) {
  TraceWriter writer;
  for (size_t i = 0; i < stats.devices.size(); ++i) writer.AddDevice(stats.devices[i], i);
  for (size_t i = 0; options.show_dataflow && i < stats.devices.size(); ++i) {
    writer.AddArrows(stats.devices[i], i);
  }
  return writer.Finish();
}

}  // namespace weir
