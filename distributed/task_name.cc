#include "distributed/task_name.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/types/device_name.h"

namespace weir {

absl::StatusOr<TaskName> TaskName::Parse(absl::string_view text) {
  if (!text.empty() && text.front() == '/') {
    absl::StatusOr<DeviceName> device = DeviceName::Parse(text);
    if (!device.ok()) return device.status();
    if (device->job && device->task) return TaskName{*device->job, *device->task};
  } else if (const size_t colon = text.rfind(':'); colon != absl::string_view::npos && colon > 0) {
    TaskName task{std::string(text.substr(0, colon)), 0};
    if (absl::SimpleAtoi(text.substr(colon + 1), &task.index) && task.index >= 0) return task;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' names no task: expected 'worker:1' or '/job:worker/task:1'"));
}

}  // namespace weir
