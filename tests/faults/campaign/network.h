// The network between the tasks of a job of real processes: links of loopback TCP that break on demand.
//
// A link listens at a port of its own, and carries each connection to the port it points to. A task that is
// told this port instead of the server's talks through the link, and with a link for every ordered pair of
// tasks each direction of each pair can break by itself.
//
// Thread safety: all methods. One thread carries the bytes of all links.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace weir {

struct LinkFault {
  // Bytes of that direction stay where they are, as when the packets are lost and sent again for ever.
  bool stalls_requests = false;
  bool stalls_replies = false;
  bool refuses = false;  // new connections are reset
  absl::Duration delay;
  absl::Duration jitter;         // at most so much more, drawn for each piece; the order of bytes stays
  int64_t bytes_per_second = 0;  // 0: no limit
  int64_t cut_after = -1;        // each connection is reset after so many bytes; -1: never
};

class Network {
 public:
  static absl::StatusOr<std::unique_ptr<Network>> Start(uint64_t seed);
  ~Network();

  // The port where the new link listens, which is its name.
  absl::StatusOr<int> AddLink(int server_port);
  // New connections go there.
  void PointTo(int link, int server_port);
  void SetFault(int link, const LinkFault& fault);
  // Connections of the link end with RST.
  void Reset(int link);
  // Connections of the link are silent from now on and never end, as those of a machine that lost its power.
  void Abandon(int link);

 private:
  struct Piece {
    absl::Time due;
    std::string bytes;
  };
  // One direction of a connection.
  struct Pipe {
    int from = -1, to = -1;
    bool is_request = false;
    bool is_at_end = false;
    std::deque<Piece> pieces;
    size_t num_sent = 0;  // of the first piece
    absl::Time last_due = absl::InfinitePast();
    int64_t num_carried = 0;
  };
  struct Connection {
    int link = 0;
    int client = -1, server = -1;
    bool is_abandoned = false;
    bool is_broken = false;
    Pipe pipes[2];
  };
  struct Link {
    int listener = -1;
    int server_port = 0;
    LinkFault fault;
  };

  Network(uint64_t seed, int wake) : random_(seed), wake_(wake) {}
  void Carry();
  void Accept(int name, Link& link) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Move(Connection& connection, Pipe& pipe, bool is_readable) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Stalls(const Connection& connection, const Pipe& pipe) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close(Connection& connection, bool with_reset);
  void Wake() const;

  mutable absl::Mutex mutex_;
  std::map<int, Link> links_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  const int wake_;  // an eventfd
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace weir
