// The devices of one process that come to a collective without a group: those that name the same group key
// and instance key in one step are one, for that collective alone (kernels/communicator.h).
#pragma once

#include <string>
#include <vector>

#include "graph/types/resource_handle.h"
#include "kernels/communicator.h"
#include "kernels/environment.h"

namespace weir {

// `devices`: all of the process, in the order of their ranks. Who waits longer than LongWait::kSilence is
// named in a notice. Borrows the environment. Thread safety: all methods.
RefPtr<PassingGroups> MakePassingGroups(std::vector<std::string> devices, Environment& environment);

}  // namespace weir
