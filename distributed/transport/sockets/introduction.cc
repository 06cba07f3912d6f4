#include "distributed/transport/sockets/introduction.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/transport/tls/shared_key.h"
#include "distributed/transport/wire.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr size_t kSerialBytes = 16;  // what makes two tickets different
constexpr char kListener[] = "weir listener", kClient[] = "weir client", kTicket[] = "weir ticket";

}  // namespace

Tickets::Tickets() : secret_(RandomBytes(kKeyBytes)) {}

absl::StatusOr<Ticket> Tickets::Give(const TicketHolder& holder) const {
  WireWriter text;
  text.String(RandomBytes(kSerialBytes));
  text.String(holder.mark);
  text.Unsigned(holder.names.size());
  for (const std::string& name : holder.names) text.String(name);
  Ticket ticket;
  ticket.text = text.Take();
  if (ticket.text.size() > kMaxTicketBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("names and issuer of a certificate take ",
                                                     ticket.text.size(), " bytes of a ticket, which has ",
                                                     "room for ", kMaxTicketBytes));
  }
  ticket.key = KeyOf(ticket.text);
  if (ticket.key.empty()) return absl::ResourceExhaustedError("the system has no random numbers to give");
  return ticket;
}

std::string Tickets::KeyOf(absl::string_view ticket) const {
  if (!are_good() || ticket.size() < kSerialBytes || ticket.size() > kMaxTicketBytes) return "";
  return ProofOf(secret_, {kTicket, ticket});
}

absl::StatusOr<TicketHolder> Tickets::HolderOf(absl::string_view ticket) {
  WireReader reader(ticket);
  reader.String();
  TicketHolder holder;
  holder.mark = std::string(reader.String());
  for (uint64_t left = reader.Unsigned(); left > 0 && reader.ok(); --left) {
    holder.names.emplace_back(reader.String());
  }
  WEIR_RETURN_IF_ERROR(reader.Finish("a ticket"));
  return holder;
}

std::string Introduction::ListenersProof() const {
  return ProofOf(ticket.key, {kListener, ticket.text, client_nonce, listener_nonce});
}

std::string Introduction::ClientsProof() const {
  return ProofOf(ticket.key, {kClient, ticket.text, client_nonce, listener_nonce});
}

bool Introduction::IsListenersProof(absl::string_view proof) const {
  return IsProofOf(proof, ticket.key, {kListener, ticket.text, client_nonce, listener_nonce});
}

bool Introduction::IsClientsProof(absl::string_view proof) const {
  return IsProofOf(proof, ticket.key, {kClient, ticket.text, client_nonce, listener_nonce});
}

}  // namespace weir
