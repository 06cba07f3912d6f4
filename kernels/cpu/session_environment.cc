#include "kernels/cpu/session_environment.h"

#include "kernels/function_caller.h"
#include "kernels/session_state.h"

namespace weir {

Environment& EnvironmentOf(const KernelConstruction& construction) {
  SessionState* const session = construction.session();
  if (session == nullptr || session->functions() == nullptr) return RealEnvironment();
  return session->functions()->environment();
}

}  // namespace weir
