#include "kernels/node_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace weir {

absl::Status ErrorOfNode(absl::string_view op, absl::string_view name, const DeviceName& device,
                         const absl::Status& status) {
  if (status.ok() || status.GetPayload(kNodePayload)) return status;
  absl::Status error(status.code(),
                     absl::StrCat(op, " '", name, "' on ", device.ToString(), ": ", status.message()));
  error.SetPayload(kNodePayload, absl::Cord(name));
  return error;
}

}  // namespace weir
