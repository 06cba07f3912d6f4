// A traced step as a picture: Chrome's trace format, for chrome://tracing and Perfetto.
//
// Source of the format: "Trace Event Format" (the Catapult project). Each device is a process, each of its
// threads a row, each run of a node a box; arrows go from the producers of tensors to their consumers.
#pragma once

#include <string>

#include "graph/interchange/step_stats.h"

namespace weir {

struct ChromeTraceOptions {
  bool show_dataflow = true;  // arrows
};

// JSON text. Times are in microseconds since the Unix epoch.
std::string ChromeTrace(const StepStats& stats, const ChromeTraceOptions& options = {});

}  // namespace weir
