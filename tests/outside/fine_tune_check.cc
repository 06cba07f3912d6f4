// Compares what examples/fine_tune has written with the checkpoint that it began with.
//
// usage: fine_tune_check PRETRAINED MODEL_DIR
// Prints one line for each thing that is not as it should be; the exit code is then 1.
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "weir/weir.h"

namespace weir {
namespace {

class Complaints {
 public:
  void Unless(bool is_right, const std::string& complaint) {
    if (is_right) return;
    std::printf("%s\n", complaint.c_str());
    found_ = true;
  }
  bool found() const { return found_; }

 private:
  bool found_ = false;
};

absl::StatusOr<std::unique_ptr<BundleReader>> OpenNewest(const std::string& folder) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> checkpoints, CheckpointsIn(folder));
  if (checkpoints.empty()) return absl::NotFoundError(folder + " has no checkpoint");
  return BundleReader::Open(checkpoints[0]);
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

absl::Status CheckVariables(const BundleReader& before, const BundleReader& after, Complaints& complaints) {
  struct Pair {
    const char *before, *after;
    bool is_frozen;
  };
  for (const Pair& pair : {Pair{"classifier/dense/kernel", "hidden/kernel", true},
                           Pair{"classifier/dense/bias", "hidden/bias", true},
                           Pair{"classifier/dense_1/kernel", "logits/kernel", false},
                           Pair{"classifier/dense_1/bias", "logits/bias", false}}) {
    WEIR_ASSIGN_OR_RETURN(const Tensor old_value, before.Read(pair.before));
    WEIR_ASSIGN_OR_RETURN(const Tensor new_value, after.Read(pair.after));
    complaints.Unless(SameBits(old_value, new_value) == pair.is_frozen,
                      std::string(pair.after) + (pair.is_frozen ? " has changed" : " has not changed"));
  }
  WEIR_ASSIGN_OR_RETURN(const Tensor stop, after.Read("early_stopping/stop"));
  complaints.Unless(stop.scalar<bool>(), "the last checkpoint does not say that training stopped early");
  WEIR_ASSIGN_OR_RETURN(const Tensor step, after.Read("global_step"));
  complaints.Unless(step.scalar<int64_t>() < 20'000, "training was not stopped: " + step.ToString());
  return absl::OkStatus();
}

// What the event files of a folder have.
struct Events {
  std::map<std::string, std::vector<int64_t>> steps;  // by tag of a scalar
  bool has_graph = false;
  std::set<EventWriter::SessionStatus> session_log;
};

absl::StatusOr<Events> ReadEvents(const std::string& folder) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, PosixFileSystem().ListDirectory(folder));
  Events events;
  for (const std::string& name : names) {
    if (name.find("events.out.tfevents") == name.npos) continue;
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<EventReader> reader, EventReader::Open(folder + "/" + name));
    EventContent event;
    while (true) {
      WEIR_ASSIGN_OR_RETURN(const bool is_there, reader->ReadNext(&event));
      if (!is_there) break;
      events.has_graph |= !event.graph_def.empty();
      if (event.session_status) events.session_log.insert(*event.session_status);
      for (const auto& [tag, value] : event.scalars) events.steps[tag].push_back(event.step);
    }
  }
  return events;
}

absl::Status CheckEvents(const std::string& model_dir, int64_t last_step, Complaints& complaints) {
  WEIR_ASSIGN_OR_RETURN(Events training, ReadEvents(model_dir));
  for (const char* tag : {"loss", "learning_rate", "global_step/sec"}) {
    complaints.Unless(training.steps.count(tag) > 0, std::string("no summaries of ") + tag);
  }
  complaints.Unless(training.has_graph, "the event file has no graph");
  for (const auto status : {EventWriter::SessionStatus::kStart, EventWriter::SessionStatus::kCheckpoint}) {
    complaints.Unless(training.session_log.count(status) > 0,
                      "the session log has no entry of kind " + std::to_string(static_cast<int>(status)));
  }

  WEIR_ASSIGN_OR_RETURN(Events evaluation, ReadEvents(model_dir + "/eval"));
  const std::vector<int64_t>& steps = evaluation.steps["accuracy"];
  complaints.Unless(
      !steps.empty() && steps.back() == last_step,
      "the evaluator did not evaluate the last checkpoint, of step " + std::to_string(last_step));
  return absl::OkStatus();
}

absl::Status Check(const std::string& pretrained, const std::string& model_dir, Complaints& complaints) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> before, OpenNewest(pretrained));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> after, OpenNewest(model_dir));
  WEIR_RETURN_IF_ERROR(CheckVariables(*before, *after, complaints));
  WEIR_ASSIGN_OR_RETURN(const Tensor step, after->Read("global_step"));
  return CheckEvents(model_dir, step.scalar<int64_t>(), complaints);
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: fine_tune_check PRETRAINED MODEL_DIR\n"), 2;
  weir::Complaints complaints;
  const absl::Status status = weir::Check(argv[1], argv[2], complaints);
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  return status.ok() && !complaints.found() ? 0 : 1;
}
