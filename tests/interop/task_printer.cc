// Prints which task of which cluster the environment makes of a process, as TF_CONFIG. One run answers for
// one environment; errors go to stderr, and the exit code is 1.
#include <cstdio>
#include <string>

#include "distributed/task_config.h"

int main() {
  const absl::StatusOr<weir::TaskConfig> task = weir::TaskConfigFromEnvironment();
  if (!task.ok()) {
    std::fprintf(stderr, "%s\n", std::string(task.status().message()).c_str());
    return 1;
  }
  std::printf("%s\n", task->ToTfConfig().c_str());
  return 0;
}
