#include "kernels/formats/file_size_signal.h"

#include <signal.h>

namespace weir {

void ReportFilesThatMayNotGrow() {
  struct sigaction now {};
  if (sigaction(SIGXFSZ, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0) return;
  if (now.sa_handler == SIG_DFL) signal(SIGXFSZ, SIG_IGN);
}

}  // namespace weir
