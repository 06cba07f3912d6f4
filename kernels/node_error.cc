#include "kernels/node_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace weir {

absl::Status ErrorOfNode(absl::string_view op, absl::string_view name, const DeviceName& device,
                         const absl::Status& status) {
  if (status.ok() || status.GetPayload(kNodePayload)) return status;
  absl::Status error(status.code(),
                     absl::StrCat(op, " '", name, "' on ", device.ToString(), ": ", status.message()));
  // What others decide by, such as the exit code.
  status.ForEachPayload(
      [&error](absl::string_view key, const absl::Cord& value) { error.SetPayload(key, value); });
  error.SetPayload(kNodePayload, absl::Cord(name));
  return error;
}

}  // namespace weir
