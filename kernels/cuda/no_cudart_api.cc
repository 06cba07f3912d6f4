// What cudart_api.h is in a build without the toolkit.
#include "kernels/cuda/cudart_api.h"

namespace weir {

bool IsBuiltWithCuda() { return false; }

std::unique_ptr<CudaApi> MakeCudartApi() { return nullptr; }

}  // namespace weir
