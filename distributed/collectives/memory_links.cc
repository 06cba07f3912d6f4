#include "distributed/collectives/memory_links.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "distributed/timing/patience.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// About what it costs to wake the other side, and to be woken.
constexpr int64_t kLookNanoseconds = 50'000;
constexpr int kLooksPerClock = 16;
// After so many looks in vain only each kRareLook-th collective is looked for.
constexpr int kMaxInVain = 16;
constexpr int kRareLook = 16;

// Of the thread that is between BeginLook and the end of Await.
thread_local const MemoryLinks* looks_for = nullptr;

}  // namespace

MemoryLinks::MemoryLinks(int size, Take take, Tell tell)
    : take_(std::move(take)), tell_(std::move(tell)), links_(size) {}

MemoryLinks::LinkRef MemoryLinks::Find(int rank, uint64_t generation) const {
  absl::MutexLock lock(&mutex_);
  const LinkRef& link = links_[rank];
  return link != nullptr && link->generation == generation ? link : nullptr;
}

std::vector<MemoryLinks::LinkRef> MemoryLinks::All(uint64_t generation) const {
  absl::MutexLock lock(&mutex_);
  std::vector<LinkRef> links = links_;
  for (LinkRef& link : links) {
    if (link != nullptr && (link->generation != generation || link->is_broken)) link = nullptr;
  }
  return links;
}

bool MemoryLinks::has_link(int rank) const {
  absl::MutexLock lock(&mutex_);
  return links_[rank] != nullptr && links_[rank]->is_open;
}

absl::StatusOr<SharedMemory::Place> MemoryLinks::Offer(int rank, uint64_t generation) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<SharedMemory> memory, SharedMemory::Make(kLinkBytes));
  SharedMemory::Place place = memory->place();
  auto link = std::make_shared<Link>(std::move(memory), generation, /*is_first=*/true);
  absl::MutexLock lock(&mutex_);
  links_[rank] = std::move(link);
  return place;
}

void MemoryLinks::Open(int rank, uint64_t generation) {
  if (const LinkRef link = Find(rank, generation)) link->is_open = true;
}

absl::Status MemoryLinks::Accept(int rank, uint64_t generation, const SharedMemory::Place& place) {
  // A repetition, whose answer was lost: what was read and written since would be forgotten.
  if (Find(rank, generation) != nullptr) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<SharedMemory> memory, SharedMemory::Open(place, kLinkBytes));
  auto link = std::make_shared<Link>(std::move(memory), generation, /*is_first=*/false);
  link->is_open = true;
  absl::MutexLock lock(&mutex_);
  // It may have taken so long that the link of a later generation would be replaced.
  if (under_way_.has_value() && *under_way_ != generation) {
    return absl::AbortedError("that generation of the group is over");
  }
  links_[rank] = std::move(link);
  return absl::OkStatus();
}

void MemoryLinks::KeepOnly(uint64_t generation) {
  std::vector<LinkRef> dropped;  // unmapped without the lock
  absl::MutexLock lock(&mutex_);
  under_way_ = generation;
  for (LinkRef& link : links_) {
    if (link != nullptr && link->generation != generation) dropped.push_back(std::exchange(link, nullptr));
  }
}

void MemoryLinks::OnEnd(uint64_t generation) {
  absl::MutexLock lock(&mutex_);
  if (under_way_ == generation) under_way_ = std::nullopt;
}

bool MemoryLinks::MayLook(uint64_t generation) {
  if (num_in_vain_ >= kMaxInVain && ++num_left_out_ % kRareLook != 0) return false;
  int num_ranks = 1;
  for (const LinkRef& link : All(generation)) num_ranks += link != nullptr && link->is_open;
  return num_ranks > 1 && num_ranks <= sysconf(_SC_NPROCESSORS_ONLN);
}

bool MemoryLinks::BeginLook(uint64_t generation) {
  if (somebody_looks_.exchange(true, std::memory_order_acquire)) return false;
  if (!MayLook(generation)) {
    somebody_looks_.store(false, std::memory_order_release);
    return false;
  }
  for (const LinkRef& link : All(generation)) {
    if (link != nullptr) link->in.SetIsPolled(true);
  }
  looks_for = this;
  return true;
}

void MemoryLinks::Await(uint64_t generation, absl::FunctionRef<bool()> is_over) {
  const std::vector<LinkRef> links = All(generation);
  const int64_t end = Patience::NowNanoseconds() + kLookNanoseconds;
  bool has_ended = false;
  do {
    for (int i = 0; i < kLooksPerClock && !has_ended; ++i) {
      ReadEach(links);
      has_ended = is_over();
    }
    if (!has_ended) sched_yield();  // another rank may wait for this core
  } while (!has_ended && Patience::NowNanoseconds() < end);
  num_in_vain_ = has_ended ? 0 : num_in_vain_ + 1;
  looks_for = nullptr;
  for (const LinkRef& link : links) {
    if (link != nullptr) link->in.SetIsPolled(false);
  }
  somebody_looks_.store(false, std::memory_order_release);
  while (ReadEach(links)) {  // what came while the others still saw that this one looks
  }
  TellUnnoticed(All(generation));  // a link may have been opened meanwhile, and been sent to
}

void MemoryLinks::TellUnnoticed(const std::vector<LinkRef>& links) {
  for (size_t rank = 0; rank < links.size(); ++rank) {
    if (links[rank] != nullptr && links[rank]->is_open && links[rank]->out.NeedsNotice()) {
      tell_(static_cast<int>(rank), links[rank]->generation);
    }
  }
}

bool MemoryLinks::MaySend(const LinkRef& link) const {
  if (link == nullptr || !link->is_open || link->is_broken) return false;
  return looks_for == this || link->out.is_polled();
}

bool MemoryLinks::CanSend(int to, uint64_t generation) const { return MaySend(Find(to, generation)); }

bool MemoryLinks::Send(int to, uint64_t generation, absl::string_view header, absl::string_view bytes) {
  const LinkRef link = Find(to, generation);
  if (!MaySend(link)) return false;
  const bool looks = looks_for == this;
  {
    absl::MutexLock lock(&link->write_mutex);
    if (!link->out.Write(header, bytes)) return false;
  }
  if (!looks && link->out.NeedsNotice()) tell_(to, generation);
  return true;
}

void MemoryLinks::ReadAll(int from, uint64_t generation) {
  const LinkRef link = Find(from, generation);
  while (link != nullptr && ReadOne(from, *link)) {
  }
}

void MemoryLinks::ReadAllThen(int from, uint64_t generation, absl::AnyInvocable<void()> next) {
  ReadAll(from, generation);
  if (const LinkRef link = Find(from, generation)) {
    absl::MutexLock lock(&link->read_mutex);
    if (link->num_taking > 0) return link->next.push_back(std::move(next));
  }
  next();
}

bool MemoryLinks::ReadEach(const std::vector<LinkRef>& links) {
  bool has_read = false;
  for (size_t rank = 0; rank < links.size(); ++rank) {
    if (links[rank] == nullptr || !links[rank]->in.has_message()) continue;
    has_read = ReadOne(static_cast<int>(rank), *links[rank]) || has_read;
  }
  return has_read;
}

bool MemoryLinks::ReadOne(int from, Link& link) {
  std::string message;
  absl::StatusOr<bool> has_read = false;
  {
    absl::MutexLock lock(&link.read_mutex);
    if (link.is_broken) return false;
    has_read = link.in.Read(&message);
    if (!has_read.ok()) link.is_broken = true;
    link.num_taking += has_read.ok() && *has_read;
  }
  if (!has_read.ok()) {
    take_(from, link.generation, has_read.status());
    return false;
  }
  if (!*has_read) return false;
  take_(from, link.generation, std::move(message));
  EndTaking(link);
  return true;
}

void MemoryLinks::EndTaking(Link& link) {
  std::vector<absl::AnyInvocable<void()>> next;
  {
    absl::MutexLock lock(&link.read_mutex);
    if (--link.num_taking == 0) next = std::exchange(link.next, {});
  }
  for (auto& each : next) each();
}

}  // namespace weir
