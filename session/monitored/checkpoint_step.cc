#include "session/monitored/checkpoint_step.h"

#include <memory>

#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"
#include "kernels/formats/bundle_reader.h"

namespace weir {

absl::StatusOr<int64_t> GlobalStepOf(const std::string& checkpoint, FileSystem& files,
                                     const std::string& name) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(checkpoint, files));
  const BundleEntry* entry = reader->Find(name);
  if (entry == nullptr || entry->dtype != DType::kInt64 || entry->shape.rank() != 0) return 0;
  WEIR_ASSIGN_OR_RETURN(const Tensor step, reader->Read(name));
  return step.scalar<int64_t>();
}

}  // namespace weir
