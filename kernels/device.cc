#include "kernels/device.h"

#include "absl/functional/function_ref.h"
#include "absl/synchronization/notification.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::StatusOr<Tensor> Await(absl::FunctionRef<absl::StatusOr<Tensor>(Device::CopyDone)> copy) {
  absl::Notification has_ended;
  absl::Status status;
  WEIR_ASSIGN_OR_RETURN(Tensor result, copy([&](const absl::Status& ended) {
                          status = ended;
                          has_ended.Notify();
                        }));
  has_ended.WaitForNotification();
  WEIR_RETURN_IF_ERROR(status);
  return result;
}

}  // namespace

absl::StatusOr<Tensor> Device::FromHost(const Tensor& host) {
  return Await([&](CopyDone done) { return CopyIn(host, std::move(done)); });
}

absl::StatusOr<Tensor> Device::ToHost(const Tensor& device) {
  return Await([&](CopyDone done) { return CopyOut(device, std::move(done)); });
}

}  // namespace weir
