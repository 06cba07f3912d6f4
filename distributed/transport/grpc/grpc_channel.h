// The client side of GrpcTransport: calls to one peer.
//
// Owned by the caller. Its destructor cancels the calls that are left and waits until they have ended. Thread
// safety: all methods.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "distributed/transport/transport.h"

namespace weir {

class GrpcChannel final : public Channel {
 public:
  // Borrows the queue, whose events a CompletionPoller takes off.
  GrpcChannel(TaskName peer, std::string address, std::shared_ptr<grpc::Channel> channel,
              grpc::CompletionQueue* queue, std::string token, int64_t max_message_bytes);
  ~GrpcChannel() override;

  std::shared_ptr<OutgoingCall> Call(absl::string_view method, Frame request, const CallOptions& options,
                                     Done done) override;
  const TaskName& peer() const override { return peer_; }
  const std::string& address() const override { return address_; }

 private:
  class PendingCall;

  void Forget(PendingCall* call);

  const TaskName peer_;
  const std::string address_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::CompletionQueue* const queue_;
  const std::string token_;
  const int64_t max_message_bytes_;

  absl::Mutex mutex_;
  absl::CondVar idle_;
  absl::flat_hash_set<PendingCall*> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
