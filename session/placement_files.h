// Leaves the placement reports of a session's compiled steps in a folder, as SessionOptions::placement_dir
// asks: step-1.txt, step-1.dot, step-1.svg, step-2.txt, ...; the pictures simplified to what fits on a
// screen.
//
// At most kMaxSteps are written, so that a program that makes new steps for ever does not fill the disk.
// Thread safety: Write may be called from any thread.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "placer/report.h"

namespace weir {

class PlacementFiles {
 public:
  static constexpr int kMaxSteps = 100;

  explicit PlacementFiles(std::string directory) : directory_(std::move(directory)) {}

  // Makes the folder when it is missing. Errors: those of the file system, naming the file.
  absl::Status Write(const PlacementReport& report);

 private:
  const std::string directory_;
  std::atomic<int> num_steps_{0};
};

}  // namespace weir
