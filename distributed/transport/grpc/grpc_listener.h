// The server side of GrpcTransport.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "distributed/keys/revocation_list.h"
#include "distributed/transport/grpc/completion_poller.h"
#include "distributed/transport/grpc/connection_gate.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/transport.h"

namespace weir {

class GrpcListener final : public Listener {
 public:
  static absl::StatusOr<std::unique_ptr<Listener>> Start(
      const std::string& address, CallHandler handler, PayloadPlacement placement, const GrpcOptions& options,
      std::shared_ptr<grpc::ServerCredentials> credentials);
  ~GrpcListener() override;

  const std::string& address() const override { return address_; }
  absl::Status CheckCaller(absl::string_view mark) const override;
  void Shutdown() override;

 private:
  class ServedCall;

  GrpcListener(CallHandler handler, PayloadPlacement placement, const GrpcOptions& options)
      : handler_(std::move(handler)),
        placement_(std::move(placement)),
        token_(options.security.token),
        is_encrypted_(options.security.uses_tls()),
        is_serving_(options.is_serving),
        admits_(options.security.tls_task_names ? options.admits : nullptr),
        on_refused_(options.on_refused),
        max_message_bytes_(options.max_message_bytes) {}

  // Waits for the next call, unless the listener is closing.
  void AcceptNext();
  bool IsAuthorized(const grpc::GenericServerContext& context) const;
  void OnCallOver();

  const CallHandler handler_;
  const PayloadPlacement placement_;
  const std::string token_;
  const bool is_encrypted_;
  const std::function<bool()> is_serving_;
  const decltype(GrpcOptions::admits) admits_;
  std::unique_ptr<RevocationList> revoked_;  // null: none is
  const OnRefusal on_refused_;
  const int64_t max_message_bytes_;
  std::string address_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<ConnectionGate> gate_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<CompletionPoller> poller_;

  absl::Mutex mutex_;
  absl::CondVar idle_;
  bool is_closing_ ABSL_GUARDED_BY(mutex_) = false;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;  // waited for, or accepted and not over
};

}  // namespace weir
