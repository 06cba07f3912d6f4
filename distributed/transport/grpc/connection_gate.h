// Accepts the TCP connections of a gRPC server, and lets gRPC have those whose first call shows the job's
// token (greeting.h). The others cost at most `max_strangers` times the memory of a greeting, and a
// descriptor each, with TLS two: gRPC's, and one to close the connection by.
//
// A stranger, who has shown nothing yet, is closed
//  * when its calls were refused, or it speaks no HTTP/2;
//  * after `grace`;
//  * when `max_strangers` are connected and another comes: the oldest of the network address that has most.
// What comes with TLS cannot be read here: gRPC gets such a connection at once, and says when a call of it
// was let in (OnAdmitted). Until then it is a stranger all the same, whether it is still in its handshake or
// makes calls that are refused. How much it sends is looked at now and then, for gRPC puts no limit on the
// headers of a call that are spread over many frames: one stranger may send kMaxStrangerBytes, all together
// kMaxStrangersBytes, of which the one that sent most is closed. Without a token and TLS gRPC gets every
// connection, and nobody is a stranger.
//
// A connection through which calls are opened and reset as fast as it can is closed too, whoever it belongs
// to (rapid_resets.h), and nothing is accepted until what it has left is gone. Calls are taken in the order
// in which they were read, and those of a second connection are seen only when those of the first were dealt
// with, while gRPC reads on; it may even read with all the threads that should take them. So the gate looks
// itself at how many calls gRPC keeps (open_streams.h): when more than kMostOpen were not taken, each client
// that has so many is closed.
//
// So is one that sends so much that gRPC comes to no end of reading with the thread that hands connections
// on: the others wait for that.
//
// While `max_descriptors` are in use in this process nothing is accepted: newcomers wait in the backlog, and
// now and then the oldest stranger makes room.
//
// Threads: one, which accepts and reads, and one that hands connections on: gRPC reads with the thread that
// gives it a connection for as long as something comes through it. Thread safety: num_strangers and what
// begins with On; the others by one thread.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/transport/grpc/greeting.h"
#include "distributed/transport/grpc/rapid_resets.h"
#include "distributed/transport/refusal.h"
#include "kernels/process_clock.h"

namespace weir {

class ConnectionGate {
 public:
  // With TLS, of a stranger: what gRPC lets a call of its send before somebody reads it, and some more.
  static constexpr uint64_t kMaxStrangerBytes = 18 << 20;
  static constexpr uint64_t kMaxStrangersBytes = 64 << 20;

  // Far above what those have under way that mean well.
  static constexpr int64_t kMostOpen = 2000;

  // How long connections that are over stay: so that clients read the answers before they meet a reset.
  static constexpr absl::Duration kFarewell = absl::Seconds(1);

  // How long gRPC may read what comes through a connection before it is given the next one.
  static constexpr absl::Duration kLongestHanding = absl::Seconds(5);

  // A connection that is let in: its descriptor, to own, that of the socket which it came through, and what
  // the client has sent already.
  using Handler = std::function<void(int fd, int listening_fd, std::string bytes)>;

  struct Options {
    std::string token;          // empty: all are let in
    bool is_encrypted = false;  // with TLS; the token is gRPC's affair then
    int max_streams = 100;
    int max_header_bytes = 8 << 10;
    size_t max_strangers = 256;  // at least 1
    int max_descriptors = std::numeric_limits<int>::max();
    std::function<bool()> is_serving;  // Greeting
    // Calls that were taken and are not over; null: none. Called by the gate's thread.
    std::function<int64_t()> num_taken;
    OnRefusal on_refused;  // null: nobody is told; called by the gate's thread
    absl::Duration grace = absl::Seconds(20);
    // A connection whose peer acknowledges nothing for this long is closed.
    absl::Duration silence = absl::Seconds(10);
    absl::Time (*now)() = ProcessNow;
  };

  // Listens; nothing is accepted before Start. Port 0: a free one. A host may have several addresses
  // (localhost: ::1 and 127.0.0.1), of which one that works is enough; but one in use is in use.
  // Possible errors: AlreadyExists (the port is in use), PermissionDenied, InvalidArgument (no such host, no
  // address of this machine), ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(const std::string& address, Options options);
  ~ConnectionGate();

  int port() const { return port_; }

  // ResourceExhausted when the system gives no thread.
  absl::Status Start(Handler handler);
  // Accepts no more, closes the strangers, and hands nothing on any more. Connections that are still there
  // when kFarewell is over are closed, also gRPC's: its server waits for those that send without a pause.
  void Stop();
  // After Stop: waits for the handler.
  void AwaitHandler();
  // After that, when gRPC's server has ended: closes nothing any more.
  void End();

  // With TLS: a call of that client ("ipv4:127.0.0.1:43210") was let in.
  void OnAdmitted(const std::string& client);
  // With TLS: one was refused. A stranger has a second to read that.
  void OnRefused(const std::string& client);

  // Whoever it is: a call of that client was given up before its request was there.
  void OnReset(const std::string& client);

  size_t num_strangers() const { return num_strangers_.load(std::memory_order_relaxed); }

 private:
  struct Stranger;

  explicit ConnectionGate(Options options);
  void Run();
  void Accept(int listening_fd);
  // `own` is a second descriptor of the connection `fd`.
  // Runs the handler on its thread.
  void HandOn(int fd, int listening_fd, std::string bytes);
  void RunHandler();
  void HandOver(int fd, int own, int listening_fd, const sockaddr_storage& client);
  void MakeRoom();
  void CloseOldest();
  void AwaitDescriptors();
  // Does what OnAdmitted and OnRefused have said.
  void JudgeClients();
  // Closes the connection that gRPC reads for too long while the others wait.
  void CloseEndless();
  // Does what OnReset has said, and looks now and then whether gRPC keeps too much.
  void CloseFloods();
  void Wake();
  // With TLS: closes strangers that have sent too much.
  void CloseLoud();
  void TellOfRefusals(const Stranger& stranger, int num_told, bool is_over) const;
  void CloseLate();
  // False when the stranger is one no more: it was let in or closed.
  bool Read(Stranger& stranger);
  void AwaitStop(absl::Duration timeout);
  // Until End.
  void CloseWhatStays();
  // Until the next stranger is to be closed, or connections are accepted again.
  int MillisecondsToWait(absl::Time now, absl::Time settles_at) const;
  // Closes the connections of these clients, and tells of it.
  void CloseFloodsOf(const std::set<std::string>& clients);

  const Options options_;
  int port_ = 0;
  std::vector<int> listening_fds_;
  int wake_fd_ = -1;  // readable when the gate stops, and when somebody was refused
  std::atomic<bool> is_stopping_{false};
  Handler handler_;
  std::thread thread_;
  std::list<Stranger> strangers_;  // the oldest first; of the gate's thread
  std::atomic<size_t> num_strangers_{0};
  absl::Mutex mutex_;
  // By AddressText; not looked at yet.
  std::set<std::string> admitted_ ABSL_GUARDED_BY(mutex_), refused_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> floods_ ABSL_GUARDED_BY(mutex_);
  RapidResets resets_;
  // Of the gate's thread: whose connections were closed, while gRPC keeps too much of them.
  std::set<std::string> flooding_;
  absl::Time next_look_ = absl::InfinitePast();
  absl::Duration worked_;  // of this process, when it looked last
  bool has_handed_on_ = false;
  struct Admitted {
    int fd;
    int listening_fd;
    std::string bytes;
  };
  absl::Mutex handing_mutex_;
  std::deque<Admitted> admitted_connections_ ABSL_GUARDED_BY(handing_mutex_);
  bool hands_on_ ABSL_GUARDED_BY(handing_mutex_) = false;
  // Whose connection is just handed on, and since when; empty: nobody's.
  std::string handed_on_ ABSL_GUARDED_BY(handing_mutex_);
  absl::Time handed_on_since_ ABSL_GUARDED_BY(handing_mutex_);
  std::thread handing_;
  absl::Mutex end_mutex_;
  bool has_ended_ ABSL_GUARDED_BY(end_mutex_) = false;
  std::thread ending_;
};

}  // namespace weir
