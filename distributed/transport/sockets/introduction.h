// How the two sides of a connection show each other that they are those who they are taken for, before
// anything else is said.
//
// Over the network a listener gives each caller that is admitted a ticket and its key (socket_transport.h).
// On a connection: the client's hello has the ticket and a nonce; the listener's challenge a nonce of its own
// and its proof; the client's proof follows, and the listener's welcome. A proof is that of the key
// (shared_key.h) over the ticket and both nonces, and says of which side it is: who listens at the port
// without having given the ticket learns nothing, and cannot answer; what it heard is of no use elsewhere.
//
// A listener remembers no tickets: a key is made of the ticket and a secret of the listener's own. The ticket
// also has what the network knows of the caller's certificate. Thread safety: all methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

struct Ticket {
  std::string text, key;
};

// Who was given a ticket, as the network's call has said.
struct TicketHolder {
  std::vector<std::string> names;  // IncomingCall::caller_names
  std::string mark;                // IncomingCall::caller_mark
};

inline constexpr size_t kMaxTicketBytes = 1024;
inline constexpr size_t kNonceBytes = 32;
// The longest text of a message before the welcome: a ticket and a nonce, or proofs.
inline constexpr uint32_t kMaxIntroductionBytes = kMaxTicketBytes + 256;

class Tickets {
 public:
  // With a new secret.
  Tickets();
  // Whether the system had a secret to give; without it there are no tickets.
  bool are_good() const { return !secret_.empty(); }

  // ResourceExhausted (names and mark are above kMaxTicketBytes, or the system has no nonce to give).
  absl::StatusOr<Ticket> Give(const TicketHolder& holder) const;
  // Of any text, also one that was never given: nobody else knows that one's key. Empty: there is none.
  std::string KeyOf(absl::string_view ticket) const;
  // Of a ticket that was given; InvalidArgument for others.
  static absl::StatusOr<TicketHolder> HolderOf(absl::string_view ticket);

 private:
  const std::string secret_;
};

// The nonces of a connection, and the ticket.
struct Introduction {
  Ticket ticket;
  std::string client_nonce, listener_nonce;

  std::string ListenersProof() const;
  std::string ClientsProof() const;
  bool IsListenersProof(absl::string_view proof) const;
  bool IsClientsProof(absl::string_view proof) const;
};

}  // namespace weir
