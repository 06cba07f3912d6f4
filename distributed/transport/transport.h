// Moving messages between tasks: the interface under worker calls. Implementations: grpc/, sockets/
// (wraps another one, and sends most calls through sockets of its own: what servers use), inproc/ (one
// process, for tests), fault/ (wraps another and makes it fail on demand).
//
// A Transport opens Channels (client side, one peer each) and Listeners (server side). A call is asynchronous
// and unary: one request, one reply, each a Frame (frame.h).
//
// Methods are paths, "/weir.Worker/RunPartition". Methods outside "/weir." belong to other protocols
// (TensorFlow's MasterService): their messages are one payload, without header and without our framing.
//
// Thread safety: all methods of all classes. Threads: `done` callbacks and Handlers run on the transport's
// threads, which are few; they must not block, must not compute for long but in IncomingCall::Compute, and
// must not destroy the object that called them.
//
// Progress: `done` is called exactly once for every Call: with the reply, or with an error no later than the
// deadline plus a scheduling delay, also when the peer is lost or the Channel is destroyed. Not promised: any
// order between calls; that a call that failed was not executed (see exactly-once in worker_service.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/task_name.h"
#include "distributed/transport/frame.h"

namespace weir {

struct CallOptions {
  absl::Time deadline = absl::InfiniteFuture();
  // Keep trying to connect until the deadline instead of failing at the first refusal: for peers that may
  // still be starting.
  bool wait_for_ready = false;
  // Where the answer came from, "ipv4:10.0.0.1:4711", set before `done` is called by transports that know.
  // The caller's, and lives until then.
  std::string* answered_by = nullptr;
};

// A call that was made and may be given up.
class OutgoingCall {
 public:
  virtual ~OutgoingCall() = default;
  // `done` gets Cancelled soon unless it was on its way already.
  virtual void Cancel() = 0;
};

// A call that ended before it was made: there is nothing to give up.
class CallThatIsOver final : public OutgoingCall {
 public:
  void Cancel() override {}
};

class Channel {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<Frame>)>;

  // Cancels the calls under way and waits until their `done` have returned.
  virtual ~Channel() = default;

  // Possible errors: what the handler replied; Unavailable (cannot connect, or the connection was lost) and
  // DeadlineExceeded, naming peer, address and method; Unauthenticated (the token is wrong);
  // ResourceExhausted (the message is above the limit, naming both sizes); Cancelled. The result may be
  // dropped; the call goes on.
  virtual std::shared_ptr<OutgoingCall> Call(absl::string_view method, Frame request,
                                             const CallOptions& options, Done done) = 0;

  virtual const TaskName& peer() const = 0;
  virtual const std::string& address() const = 0;
};

// A call as the server sees it. Shared by the handler and whatever answers later; one that is dropped without
// a reply answers with Internal.
class IncomingCall {
 public:
  virtual ~IncomingCall() = default;

  virtual const std::string& method() const = 0;
  virtual Frame& request() = 0;
  virtual absl::Time deadline() const = 0;
  // Where it came from, for logs: "ipv4:127.0.0.1:43210".
  virtual std::string client() const = 0;
  // The DNS names of the caller's certificate, where there is one and the transport knows them.
  virtual std::vector<std::string> caller_names() const { return {}; }
  // The caller, for the listener's CheckCaller: opaque, and empty where there is nothing to check.
  virtual std::string caller_mark() const { return ""; }

  // For a handler whose answer may take long to compute: runs `work` on this thread while another one takes
  // the next call, or later on another thread when too many compute already. From the handler only. `work`
  // must not wait for other calls; it is dropped, instead of run, when the listener shuts down meanwhile.
  virtual void Compute(absl::AnyInvocable<void()> work) = 0;

  // Once. Later replies, and replies to a client that is gone, are dropped.
  virtual void Reply(absl::StatusOr<Frame> reply) = 0;

  // Runs `callback` once if the client gives up (cancels, runs out of time, goes away) before Reply; at once
  // if it has already. At most one callback.
  virtual void OnCancel(std::function<void()> callback) = 0;
};

using CallHandler = std::function<void(std::shared_ptr<IncomingCall> call)>;

// Where the bytes of a request's payload shall go: asked once for each when the header of a framed method has
// been read, maybe before the bytes have come; the handler gets the request with them in their place. When
// they do not come (the connection broke) the payload is dropped. An empty payload leaves it to the
// transport, and so does one that has not num_bytes. Only for transports that copy: one that hands buffers
// over does not ask.
using PayloadPlacement = std::function<Payload(absl::string_view method, absl::string_view header,
                                               size_t index, size_t num_bytes)>;

class Listener {
 public:
  // Shutdown().
  virtual ~Listener() = default;

  // Where it listens, with the port it was given: "127.0.0.1:4711".
  virtual const std::string& address() const = 0;

  // Whether a caller that was let in with this mark would still be: PermissionDenied says why not. For those
  // who let callers in by other ways since (sockets/).
  virtual absl::Status CheckCaller(absl::string_view /*mark*/) const { return absl::OkStatus(); }

  // Accepts no more calls; clients of unanswered ones get Unavailable or Cancelled. When it returns no
  // handler runs and none will. Not from a handler.
  virtual void Shutdown() = 0;
};

class Transport {
 public:
  // Channels and Listeners go first.
  virtual ~Transport() = default;

  // Does not connect yet: the first call does, and again after a loss. InvalidArgument when the address is
  // none.
  virtual absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                           const std::string& address) = 0;

  // Port 0: any free one. Possible errors: AlreadyExists (the port is in use), InvalidArgument (not an
  // address of this machine), FailedPrecondition (reachable from other machines without TLS or token),
  // PermissionDenied.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                           PayloadPlacement placement) = 0;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler) {
    return Listen(address, std::move(handler), nullptr);
  }
};

// Methods of ours, whose messages are framed.
inline bool IsFramedMethod(absl::string_view method) { return method.substr(0, 6) == "/weir."; }

}  // namespace weir
