#include "session/placement_files.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"

namespace weir {

absl::Status PlacementFiles::Write(const PlacementReport& report) {
  const int step = num_steps_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (step > kMaxSteps) return absl::OkStatus();
  FileSystem& files = PosixFileSystem();
  WEIR_RETURN_IF_ERROR(CreateDurableDirectories(files, directory_));
  const std::string prefix = JoinPath(directory_, absl::StrCat("step-", step));
  const Drawing drawing = report.drawing.Simplified(kReadableBoxes);
  WEIR_RETURN_IF_ERROR(WriteFileAtomically(files, prefix + ".txt", report.text));
  WEIR_RETURN_IF_ERROR(WriteFileAtomically(files, prefix + ".dot", drawing.Dot()));
  return WriteFileAtomically(files, prefix + ".svg", drawing.Svg());
}

}  // namespace weir
