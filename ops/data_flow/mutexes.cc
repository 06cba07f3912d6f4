// Mutexes of graphs.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {

std::vector<OpDef> MutexesOps() {
  return {
      WithoutGradient("MutexV2", "Gives a mutex.", ScalarShape),
      WithoutGradient("MutexLock", "Waits for a mutex, which is held as long as the output lives.",
                      ScalarShape),
      WithoutGradient("ConsumeMutexLock", "Takes a lock, so that it lives until here.", NoOutputs),
  };
}

}  // namespace weir
