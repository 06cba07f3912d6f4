// DecodeJSONExample: examples written as JSON become the serialized messages that ParseExample takes.
#include <cstdint>
#include <string>

#include "graph/types/status_macros.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/json_example.h"

namespace weir {
namespace {

absl::Status DecodeJsonExample(KernelContext& context) {
  const auto texts = context.input(0).flat<std::string>();
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, context.input(0).shape()));
  const auto examples = output->flat<std::string>();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    WEIR_ASSIGN_OR_RETURN(examples[i], ExampleFromJson(texts[i]));
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterJsonExamplesKernels(DeviceKernels& kernels) {
  kernels.Add<&DecodeJsonExample>("DecodeJSONExample");
}

}  // namespace weir
