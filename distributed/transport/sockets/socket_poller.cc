#include "distributed/transport/sockets/socket_poller.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr SocketPoller::Id kStopped = 0;  // and of what was posted, until it is taken

}  // namespace

absl::StatusOr<std::unique_ptr<SocketPoller>> SocketPoller::Start(const ListeningThreads::Options& threads,
                                                                  absl::Duration poll_before_sleep) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kStopped;
  if (epoll < 0 || wake < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) != 0) {
    const int error = errno;
    if (epoll >= 0) close(epoll);
    if (wake >= 0) close(wake);
    return absl::ResourceExhaustedError(absl::StrCat("cannot wait for sockets: ", strerror(error)));
  }
  std::unique_ptr<SocketPoller> poller(new SocketPoller(epoll, wake, poll_before_sleep));
  poller->threads_ = std::make_unique<ListeningThreads>(
      threads, [&poller = *poller](ListeningThreads& listening) { poller.Run(listening); });
  if (!poller->threads_->status().ok()) return poller->threads_->status();
  return poller;
}

SocketPoller::~SocketPoller() {
  Stop();
  close(epoll_);
  close(wake_);
}

void SocketPoller::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    is_stopped_ = true;
    eventfd_write(wake_, 1);
  }
  threads_->Stop();  // it stays: a thread that is at work may come to Compute now
}

absl::StatusOr<SocketPoller::Id> SocketPoller::Add(int fd, std::shared_ptr<Socket> socket) {
  epoll_event event{};
  event.events = EPOLLONESHOT;
  Id id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = next_id_++;
    sockets_[id] = std::move(socket);
  }
  event.data.u64 = id;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) return id;
  const int error = errno;
  absl::MutexLock lock(&mutex_);
  sockets_.erase(id);
  return absl::ResourceExhaustedError(absl::StrCat("cannot wait for a socket: ", strerror(error)));
}

void SocketPoller::Arm(Id id, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.u64 = id;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
}

void SocketPoller::Post(Id id) {
  absl::MutexLock lock(&mutex_);
  posted_.push_back(id);
  if (posted_.size() == 1) eventfd_write(wake_, 1);
}

bool SocketPoller::TakePosted(Event* event) {
  absl::MutexLock lock(&mutex_);
  *event = {kStopped, 0};
  if (is_stopped_) return true;
  if (posted_.empty()) return false;
  *event = {posted_.front(), EPOLLIN};
  posted_.pop_front();
  eventfd_t count = 0;
  if (posted_.empty()) eventfd_read(wake_, &count);
  return true;
}

void SocketPoller::Remove(Id id, int fd) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  std::shared_ptr<Socket> dropped;  // destroyed outside the lock
  absl::MutexLock lock(&mutex_);
  if (auto it = sockets_.find(id); it != sockets_.end()) {
    dropped = std::move(it->second);
    sockets_.erase(it);
  }
}

void SocketPoller::Run(ListeningThreads& threads) {
  Patience patience(poll_before_sleep_);
  Event event;
  while (!threads.MayLeave() && Next(&patience, &event)) {
    std::shared_ptr<Socket> socket;
    {
      absl::MutexLock lock(&mutex_);
      if (auto it = sockets_.find(event.id); it != sockets_.end()) socket = it->second;
    }
    if (socket != nullptr) socket->OnReady(event.events);
  }
}

// False once Stop was called.
bool SocketPoller::Next(Patience* patience, Event* event) {
  wait_.Await(
      patience, [&] { return Wait(0, event); },
      [&] {
        while (!Wait(-1, event)) {
        }
      });
  return event->id != kStopped;
}

bool SocketPoller::Wait(int timeout_ms, Event* event) {
  epoll_event ready{};
  if (epoll_wait(epoll_, &ready, 1, timeout_ms) != 1) return false;
  if (ready.data.u64 == kStopped) return TakePosted(event);
  *event = {ready.data.u64, ready.events};
  return true;
}

}  // namespace weir
