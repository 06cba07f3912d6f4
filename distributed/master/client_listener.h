// An address of its own for TensorFlow's clients, for a task whose callers must show a token or a
// certificate: those clients can do neither.
//
// Only the MasterService is served there, to whoever can reach it. Thread safety: one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "distributed/master/master_service.h"
#include "distributed/transport/transport.h"

namespace weir {

class ClientListener {
 public:
  // Borrows the master. Possible errors: FailedPrecondition (other machines reach the address, and not
  // `is_insecure`), those of Transport::Listen.
  static absl::StatusOr<std::unique_ptr<ClientListener>> Listen(const std::string& address, bool is_insecure,
                                                                MasterService& master);

  // "127.0.0.1:4712".
  const std::string& address() const { return listener_->address(); }

  // When it returns no call is handled and none will be.
  void Shutdown() { listener_->Shutdown(); }

 private:
  ClientListener() = default;

  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace weir
