// The memory that a PeerGroup's ranks of one machine share (memory_links.h): how it is offered, and what goes
// through it.
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/collectives/peer_group.h"
#include "graph/types/status_macros.h"
#include "kernels/threads.h"

namespace weir {
namespace {

constexpr absl::Duration kOfferTime = absl::Seconds(30);
constexpr absl::Duration kRetryFor = absl::Seconds(3);

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

void PeerGroup::OfferMemory(uint64_t generation) {
  if (peers_.environment().is_simulated()) return;
  const std::string host = HostOf(peers_.AddressOf(tasks_[rank_]));
  std::vector<int> here;
  for (int rank = 0; rank < static_cast<int>(tasks_.size()); ++rank) {
    if (HostOf(peers_.AddressOf(tasks_[rank])) == host) here.push_back(rank);
  }
  // Nobody would look: it would take a core from who computes.
  if (static_cast<int64_t>(here.size()) > sysconf(_SC_NPROCESSORS_ONLN)) return;
  for (const int rank : here) {
    if (rank <= rank_) continue;
    const absl::StatusOr<SharedMemory::Place> place = memory_.Offer(rank, generation);
    if (!place.ok()) return;  // the network does it all
    WireWriter writer;
    writer.Fixed64(generation);
    writer.String(place->machine);
    writer.Unsigned(static_cast<uint64_t>(place->process));
    writer.Unsigned(static_cast<uint64_t>(place->descriptor));
    writer.Fixed64(place->file);
    {
      absl::MutexLock lock(&mutex_);
      ++num_ends_;
    }
    peers_.Call(tasks_[rank], kOfferMemoryMethod, writer.Take(), {},
                {.deadline = peers_.environment().Now() + kOfferTime, .retry_for = kRetryFor},
                [this, rank, generation](const absl::StatusOr<PeerReply>& reply) {
                  if (reply.ok()) memory_.Open(rank, generation);
                  absl::MutexLock lock(&mutex_);
                  --num_ends_;
                });
  }
}

void PeerGroup::TakeOffer(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call) {
  const uint64_t generation = reader.Fixed64();
  SharedMemory::Place place;
  place.machine = std::string(reader.String());
  place.process = static_cast<int64_t>(reader.UnsignedUpTo(INT32_MAX));
  place.descriptor = static_cast<int64_t>(reader.UnsignedUpTo(INT32_MAX));
  place.file = reader.Fixed64();
  absl::Status status = reader.Finish("an offer of memory");
  if (status.ok() && rank >= rank_) {
    status = absl::InvalidArgumentError(absl::StrCat(group_->NameOf(rank), " offers memory to ",
                                                     group_->NameOf(rank_), ", which comes before it"));
  }
  const uint64_t current = group_->generation();
  // One that comes before this rank knows of the generation is kept.
  if (status.ok() && current != 0 && generation != current) {
    status = absl::AbortedError("that generation of the group is over");
  }
  if (status.ok()) status = memory_.Accept(rank, generation, place);
  Reply(*call, status);
}

bool PeerGroup::SendThroughMemory(int to, const CollectiveMessage& message, const Payload& bytes) {
  if (!IsSmall(message.signature) || message.part.phase != CollectivePart::kContribution) return false;
  if (!memory_.CanSend(to, message.generation)) return false;
  WireWriter header;
  message.EncodeTo(&header);
  WireWriter text;
  text.String(header.Take());
  return memory_.Send(to, message.generation, text.Take(), bytes.bytes());
}

void PeerGroup::TakeFromMemory(int from, uint64_t generation, const absl::StatusOr<std::string>& written) {
  absl::Status status = written.status();
  if (status.ok()) {
    WireReader reader(*written);
    const absl::string_view header = reader.String();
    const absl::string_view bytes =
        absl::string_view(*written).substr(written->size() - reader.num_bytes_left());
    WireReader header_reader(header);
    absl::StatusOr<CollectiveMessage> message = CollectiveMessage::DecodeFrom(&header_reader);
    absl::StatusOr<Payload> payload = Payload::Allocate(bytes.size());
    status = message.ok() ? payload.status() : message.status();
    if (status.ok() && message->generation != generation) {
      status = absl::InvalidArgumentError("it is of another generation of the group");
    }
    if (status.ok()) {
      std::copy(bytes.begin(), bytes.end(), payload->mutable_data());
      // Nobody is told of one that was taken. An error ends the sender's generation with this one.
      return group_->Receive(from, *std::move(message), *std::move(payload),
                             [this, generation](const absl::Status& taken) {
                               if (!taken.ok()) group_->EndGeneration(generation, taken);
                             });
    }
  }
  group_->EndGeneration(
      generation,
      absl::Status(status.code(), absl::StrCat("what ", group_->NameOf(from),
                                               " has written for this rank: ", status.message())));
}

void PeerGroup::TellOfMemory(int rank, uint64_t generation) {
  {
    absl::MutexLock lock(&mutex_);
    ++num_parts_;
  }
  WireWriter writer;
  writer.Fixed64(generation);
  peers_.Call(tasks_[rank], kReadMemoryMethod, writer.Take(), {}, {.retry_for = kRetryFor},
              [this, rank, generation](const absl::StatusOr<PeerReply>& reply) {
                RunScope scope;
                if (!reply.ok()) {
                  group_->EndGeneration(generation,
                                        absl::AbortedError(absl::StrCat(
                                            "telling ", group_->NameOf(rank),
                                            " of a part in shared memory: ", reply.status().message())));
                }
                absl::MutexLock lock(&mutex_);
                --num_parts_;
              });
}

void PeerGroup::TakeNoticeOfMemory(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call) {
  const uint64_t generation = reader.Fixed64();
  const absl::Status status = reader.Finish("a notice of shared memory");
  Reply(*call, status);
  if (!status.ok()) return;
  call->Compute([this, rank, generation] {
    RunScope scope;
    memory_.ReadAll(rank, generation);
  });
}

}  // namespace weir
