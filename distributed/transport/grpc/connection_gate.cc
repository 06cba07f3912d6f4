#include "distributed/transport/grpc/connection_gate.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distributed/transport/grpc/metadata_keys.h"
#include "distributed/transport/grpc/open_streams.h"
#include "distributed/transport/grpc/received_bytes.h"
#include "distributed/transport/listening_sockets.h"
#include "distributed/transport/socket_address.h"
#include "distributed/transport/spare_descriptor.h"
#include "graph/types/status_macros.h"
#include "kernels/environment.h"
#include "kernels/system_thread.h"

namespace weir {
namespace {

constexpr size_t kReadBytes = 16 << 10;
constexpr int kAcceptsAtOnce = 16;
constexpr absl::Duration kAcceptAgain = absl::Milliseconds(100);
constexpr size_t kMaxFarewellBytes = 256 << 10;
// Between two looks at what strangers with TLS have sent, and at what gRPC keeps of whom.
constexpr absl::Duration kLook = absl::Milliseconds(50);
// What this process does in the meantime, at least, before it looks at what gRPC keeps; and of its time the
// part that looks take at most is 1 / kMostLooking.
constexpr absl::Duration kWorkOfFloods = absl::Milliseconds(10);
constexpr int kMostLooking = 50;
constexpr char kLoudText[] =
    "it sends megabytes before any call of it was let in, and its connection is closed";
// Between two looks for connections that are still there at the end.
constexpr absl::Duration kEndingLook = absl::Milliseconds(200);
constexpr char kEndlessText[] =
    "it sends without a pause, so that no other connection is taken, and its connection is closed";
constexpr char kFloodText[] =
    "it opens calls and resets them as fast as it can, and its connection is closed";

void Set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));  // a connection works without them
}

std::string PeerText(int fd) {
  sockaddr_storage client{};
  socklen_t size = sizeof(client);
  return getpeername(fd, reinterpret_cast<sockaddr*>(&client), &size) == 0 ? AddressText(client) : "";
}

absl::Duration WorkOfProcess() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

// Breaks the connection. What has come through it and was not read is dropped, which a shutdown does not do.
void Abort(int fd) {
  const sockaddr nothing{.sa_family = AF_UNSPEC, .sa_data = {}};
  (void)!connect(fd, &nothing, sizeof(nothing));
}

// Whether `fd` is a connection of one of these clients (null: of anybody) to our port.
bool IsConnectionOf(int fd, int port, const std::set<std::string>* clients) {
  sockaddr_storage own{}, client{};
  socklen_t own_size = sizeof(own), client_size = sizeof(client);
  return getpeername(fd, reinterpret_cast<sockaddr*>(&client), &client_size) == 0 &&
         (client.ss_family == AF_INET || client.ss_family == AF_INET6) &&
         (clients == nullptr || clients->contains(AddressText(client))) &&
         getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         absl::EndsWith(AddressText(own), absl::StrCat(":", port));
}

// Aborts their connections. They are gRPC's, which gives away no descriptor: so all of this process are
// looked at. (A copy of each for this would cost
// every task of a large job as many descriptors as it has connections.)
// Returns those that had one.
std::set<std::string> AbortConnections(int port, const std::set<std::string>* clients) {
  std::set<std::string> aborted;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return aborted;
  while (const dirent* entry = readdir(folder)) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry->d_name, &fd) || !IsConnectionOf(fd, port, clients)) continue;
    // gRPC may close it at any time, and another one may get its number.
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) continue;
    if (IsConnectionOf(own, port, clients)) {
      aborted.insert(PeerText(own));
      Abort(own);
    }
    close(own);
  }
  closedir(folder);
  return aborted;
}

}  // namespace

struct ConnectionGate::Stranger {
  Stranger(int fd, int listening_fd, std::string network, std::string name, absl::Time closes,
           Greeting greeting)
      : fd(fd),
        listening_fd(listening_fd),
        network(std::move(network)),
        name(std::move(name)),
        closes(closes),
        greeting(std::move(greeting)) {}
  Stranger(const Stranger&) = delete;
  ~Stranger() {
    if (is_with_grpc) shutdown(fd, SHUT_RDWR);  // gRPC sees that, and closes its own descriptor
    if (fd >= 0) close(fd);
  }

  int fd;
  const int listening_fd;
  const std::string network;
  const std::string name;
  absl::Time closes;
  Greeting greeting;
  bool is_over = false;       // what still comes is not read
  bool is_with_grpc = false;  // `fd` is a second descriptor
  std::string client;         // of one that is
  size_t num_unread_bytes = 0;
  uint64_t num_bytes = 0;  // received, of one that is with gRPC
};

ConnectionGate::ConnectionGate(Options options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(const std::string& address,
                                                                       Options options) {
  std::unique_ptr<ConnectionGate> gate(new ConnectionGate(std::move(options)));
  WEIR_ASSIGN_OR_RETURN(ListeningSockets sockets, ListenAt(address));
  gate->listening_fds_ = std::move(sockets.fds);
  gate->port_ = sockets.port;
  gate->wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (gate->wake_fd_ >= 0) return gate;
  return absl::ResourceExhaustedError(absl::StrCat("cannot listen at ", address, ": ", strerror(errno)));
}

ConnectionGate::~ConnectionGate() {
  Stop();
  AwaitHandler();
  End();
  if (wake_fd_ >= 0) close(wake_fd_);
}

absl::Status ConnectionGate::Start(Handler handler) {
  handler_ = std::move(handler);
  {
    absl::MutexLock lock(&handing_mutex_);
    hands_on_ = true;
  }
  WEIR_ASSIGN_OR_RETURN(handing_, StartSystemThread([this] { RunHandler(); }));
  WEIR_ASSIGN_OR_RETURN(thread_, StartSystemThread([this] { Run(); }));
  return absl::OkStatus();
}

void ConnectionGate::HandOn(int fd, int listening_fd, std::string bytes) {
  has_handed_on_ = true;
  absl::MutexLock lock(&handing_mutex_);
  admitted_connections_.push_back({fd, listening_fd, std::move(bytes)});
}

void ConnectionGate::RunHandler() {
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(handing_mutex_) {
    return !hands_on_ || !admitted_connections_.empty();
  };
  while (true) {
    Admitted next;
    {
      absl::MutexLock lock(&handing_mutex_);
      handing_mutex_.Await(absl::Condition(&has_work));
      if (!hands_on_) return;
      next = std::move(admitted_connections_.front());
      admitted_connections_.pop_front();
      handed_on_ = PeerText(next.fd);
      handed_on_since_ = options_.now();
    }
    handler_(next.fd, next.listening_fd, std::move(next.bytes));
    absl::MutexLock lock(&handing_mutex_);
    handed_on_.clear();
  }
}

void ConnectionGate::AwaitHandler() {
  if (handing_.joinable()) handing_.join();
}

void ConnectionGate::Stop() {
  if (thread_.joinable()) {
    is_stopping_ = true;
    Wake();
    thread_.join();
  }
  for (const int fd : std::exchange(listening_fds_, {})) close(fd);
  {
    absl::MutexLock lock(&handing_mutex_);
    hands_on_ = false;
    for (const Admitted& connection : admitted_connections_) close(connection.fd);
    admitted_connections_.clear();
  }
  strangers_.clear();
  num_strangers_ = 0;
  if (ending_.joinable() || !handing_.joinable()) return;
  // Without a thread the end takes as long as those connections.
  absl::StatusOr<std::thread> ending = StartSystemThread([this] { CloseWhatStays(); });
  if (ending.ok()) ending_ = *std::move(ending);
}

void ConnectionGate::CloseWhatStays() {
  absl::Duration pause = kFarewell;
  Environment& environment = RealEnvironment();
  absl::MutexLock lock(&end_mutex_);
  while (!environment.Await(end_mutex_, absl::Condition(&has_ended_), environment.Now() + pause)) {
    AbortConnections(port_, nullptr);
    pause = kEndingLook;
  }
}

void ConnectionGate::End() {
  {
    absl::MutexLock lock(&end_mutex_);
    has_ended_ = true;
  }
  if (ending_.joinable()) ending_.join();
}

void ConnectionGate::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void ConnectionGate::Run() {
  std::vector<pollfd> events;
  while (true) {
    // Both once: who does not accept now must come round again when that is over, for nothing else wakes it.
    const absl::Time now = options_.now(), settles_at = resets_.settles_at();
    const bool accepts = now >= settles_at && flooding_.empty();
    events.assign(1, {wake_fd_, POLLIN, 0});
    for (const int fd : listening_fds_) events.push_back({accepts ? fd : -1, POLLIN, 0});
    for (const Stranger& stranger : strangers_) {
      // Of one that is with gRPC only its end is awaited.
      events.push_back({stranger.fd, static_cast<short>(stranger.is_with_grpc ? POLLRDHUP : POLLIN), 0});
    }
    poll(events.data(), events.size(), MillisecondsToWait(now, settles_at));
    if (is_stopping_) return;
    uint64_t num_wakes = 0;
    if (events[0].revents != 0) (void)!read(wake_fd_, &num_wakes, sizeof(num_wakes));
    // Before others are accepted: the events are in the order of the strangers.
    size_t i = 1 + listening_fds_.size();
    strangers_.remove_if([&](Stranger& stranger) { return events[i++].revents != 0 && !Read(stranger); });
    JudgeClients();
    CloseFloods();
    CloseEndless();
    CloseLoud();
    CloseLate();
    for (size_t n = 0; n < listening_fds_.size(); ++n) {
      if (events[1 + n].revents != 0) Accept(listening_fds_[n]);
    }
    num_strangers_ = strangers_.size();
  }
}

void ConnectionGate::AwaitStop(absl::Duration timeout) {
  pollfd stop = {wake_fd_, POLLIN, 0};
  poll(&stop, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
}

void ConnectionGate::Accept(int listening_fd) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int spare = TakeSpareDescriptor(wake_fd_, options_.max_descriptors);
    const int for_grpc = TakeSpareDescriptor(wake_fd_, options_.max_descriptors);
    if (for_grpc >= 0) close(for_grpc);  // accept4 takes the same one
    if (for_grpc < 0 && spare >= 0) close(spare);
    if (for_grpc < 0) return AwaitDescriptors();
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    const int fd =
        accept4(listening_fd, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      const int error = errno;
      close(spare);
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) AwaitDescriptors();
      return;
    }
    Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(absl::ToInt64Milliseconds(options_.silence)));
    if (options_.is_encrypted) {
      HandOver(fd, spare, listening_fd, address);
      continue;
    }
    close(spare);
    if (options_.token.empty()) {
      HandOn(fd, listening_fd, "");
      continue;
    }
    MakeRoom();
    strangers_.emplace_back(fd, listening_fd, NetworkOf(address), AddressText(address),
                            options_.now() + options_.grace, Greeting(options_.token, options_.is_serving));
    const std::string settings = Greeting::ServerSettings(options_.max_streams, options_.max_header_bytes);
    if (send(fd, settings.data(), settings.size(), MSG_NOSIGNAL) < 0) strangers_.pop_back();
  }
}

// The connection still waits, and asking again at once would keep a core busy.
void ConnectionGate::AwaitDescriptors() {
  JudgeClients();
  CloseOldest();
  AwaitStop(kAcceptAgain);
}

void ConnectionGate::HandOver(int fd, int own, int listening_fd, const sockaddr_storage& client) {
  if (dup3(fd, own, O_CLOEXEC) < 0) {  // never, but for a signal in between
    close(fd);
    close(own);
    return;
  }
  MakeRoom();
  Stranger& stranger = strangers_.emplace_back(own, listening_fd, NetworkOf(client), AddressText(client),
                                               options_.now() + options_.grace, Greeting("", nullptr));
  stranger.is_with_grpc = true;
  stranger.client = AddressText(client);
  num_strangers_ = strangers_.size();  // first: it may be admitted at once
  HandOn(fd, listening_fd, "");
}

void ConnectionGate::OnAdmitted(const std::string& client) {
  if (num_strangers() == 0) return;
  absl::MutexLock lock(&mutex_);
  admitted_.insert(AddressText(client));
}

void ConnectionGate::OnRefused(const std::string& client) {
  if (num_strangers() == 0) return;
  {
    absl::MutexLock lock(&mutex_);
    refused_.insert(AddressText(client));
  }
  Wake();
}

void ConnectionGate::OnReset(const std::string& client) {
  const std::vector<std::string> floods = resets_.Note(client, options_.now());
  if (floods.empty()) return;
  {
    absl::MutexLock lock(&mutex_);
    floods_.insert(floods.begin(), floods.end());
  }
  Wake();
}

void ConnectionGate::CloseFloods() {
  std::set<std::string> floods;
  {
    absl::MutexLock lock(&mutex_);
    floods.swap(floods_);
  }
  const absl::Time now = options_.now();
  if (floods.empty() && now < next_look_) return;
  next_look_ = now + kLook;
  // Who has not worked has not read much.
  const absl::Duration worked = WorkOfProcess();
  if (floods.empty() && flooding_.empty() && worked - worked_ < kWorkOfFloods) return;
  worked_ = worked;
  const std::map<std::string, int64_t> open = OpenStreams(port_);
  int64_t num_open = 0, num_left = 0;
  for (const auto& [client, count] : open) num_open += count;
  const int64_t num_taken = options_.num_taken ? options_.num_taken() : 0;
  for (const auto& [client, count] : open) {
    if (num_open - num_taken > kMostOpen && count > kMostOpen) floods.insert(client);
    if (floods.contains(client) || flooding_.contains(client)) num_left += count;
  }
  flooding_.insert(floods.begin(), floods.end());
  if (num_left <= kMostOpen) flooding_.clear();
  // Where there are many connections a look takes time.
  next_look_ = std::max(next_look_, now + kMostLooking * (options_.now() - now));
  if (!floods.empty()) CloseFloodsOf(floods);
}

void ConnectionGate::CloseEndless() {
  std::string client;
  {
    absl::MutexLock lock(&handing_mutex_);
    if (handed_on_.empty() || options_.now() < handed_on_since_ + kLongestHanding) return;
    client = handed_on_;
    handed_on_since_ = options_.now();  // once, though it may take a while until gRPC sees it
  }
  const std::set<std::string> clients = {client};
  AbortConnections(port_, &clients);
  if (options_.on_refused) options_.on_refused(Refusal::kProtocol, client, kEndlessText);
}

void ConnectionGate::CloseFloodsOf(const std::set<std::string>& clients) {
  std::set<std::string> addresses;
  for (const std::string& client : clients) addresses.insert(AddressText(client));
  const std::set<std::string> aborted = AbortConnections(port_, &addresses);
  if (!options_.on_refused) return;
  // The calls of a connection that broke are given up, too, and its client has done nothing wrong.
  for (const std::string& client : clients) {
    if (aborted.contains(AddressText(client))) options_.on_refused(Refusal::kProtocol, client, kFloodText);
  }
}

void ConnectionGate::JudgeClients() {
  std::set<std::string> admitted, refused;
  {
    absl::MutexLock lock(&mutex_);
    admitted.swap(admitted_);
    refused.swap(refused_);
  }
  if (admitted.empty() && refused.empty()) return;
  const absl::Time soon = options_.now() + kFarewell;
  strangers_.remove_if([&](Stranger& stranger) {
    if (!stranger.is_with_grpc) return false;
    if (refused.count(stranger.client) > 0) stranger.closes = std::min(stranger.closes, soon);
    if (admitted.count(stranger.client) == 0) return false;
    stranger.is_with_grpc = false;
    return true;
  });
}

void ConnectionGate::MakeRoom() {
  if (strangers_.size() >= options_.max_strangers) JudgeClients();
  if (strangers_.size() >= options_.max_strangers) CloseOldest();
}

void ConnectionGate::CloseOldest() {
  if (strangers_.empty()) return;
  std::map<std::string, size_t> counts;
  for (const Stranger& stranger : strangers_) ++counts[stranger.network];
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  strangers_.erase(std::find_if(strangers_.begin(), strangers_.end(),
                                [&](const Stranger& stranger) { return stranger.network == most->first; }));
}

bool ConnectionGate::Read(Stranger& stranger) {
  if (stranger.is_with_grpc) return stranger.is_with_grpc = false;  // it is over: gRPC closes it
  char buffer[kReadBytes];
  const ssize_t num_read = recv(stranger.fd, buffer, sizeof(buffer), 0);
  if (num_read < 0) return errno == EAGAIN || errno == EINTR;
  if (num_read == 0) return false;
  if (stranger.is_over) {
    stranger.num_unread_bytes += num_read;
    return stranger.num_unread_bytes <= kMaxFarewellBytes;
  }
  std::string answers;
  const int num_told = stranger.greeting.num_refused();
  const Greeting::State state =
      stranger.greeting.Add(absl::string_view(buffer, static_cast<size_t>(num_read)), &answers);
  if (state == Greeting::State::kAdmitted) {
    HandOn(std::exchange(stranger.fd, -1), stranger.listening_fd, stranger.greeting.TakeBytes());
    return false;
  }
  TellOfRefusals(stranger, num_told, state == Greeting::State::kOver);
  // They fit, unless the client reads nothing.
  if (!answers.empty() && send(stranger.fd, answers.data(), answers.size(), MSG_NOSIGNAL) !=
                              static_cast<ssize_t>(answers.size())) {
    return false;
  }
  if (state == Greeting::State::kOver) {
    stranger.is_over = true;
    stranger.closes = std::min(stranger.closes, options_.now() + kFarewell);
    shutdown(stranger.fd, SHUT_WR);
  }
  return true;
}

void ConnectionGate::TellOfRefusals(const Stranger& stranger, int num_told, bool is_over) const {
  if (!options_.on_refused) return;
  for (int i = num_told; i < stranger.greeting.num_refused(); ++i) {
    options_.on_refused(Refusal::kToken, stranger.name, kNoToken);
  }
  if (!is_over || !stranger.greeting.is_other_protocol()) return;
  options_.on_refused(Refusal::kProtocol, stranger.name,
                      stranger.greeting.is_tls() ? "it begins TLS, which this task was started without"
                                                 : "what it sends is no call: it is no task of Weir");
}

void ConnectionGate::CloseLate() {
  const absl::Time now = options_.now();
  strangers_.remove_if([&](const Stranger& stranger) { return stranger.closes <= now; });
}

void ConnectionGate::CloseLoud() {
  if (!options_.is_encrypted) return;
  uint64_t total = 0;
  for (Stranger& stranger : strangers_) {
    if (stranger.is_with_grpc) total += stranger.num_bytes = BytesReceived(stranger.fd);
  }
  while (!strangers_.empty()) {
    const auto most =
        std::max_element(strangers_.begin(), strangers_.end(),
                         [](const Stranger& a, const Stranger& b) { return a.num_bytes < b.num_bytes; });
    if (most->num_bytes <= kMaxStrangerBytes && total <= kMaxStrangersBytes) return;
    total -= most->num_bytes;
    if (options_.on_refused) options_.on_refused(Refusal::kProtocol, most->name, kLoudText);
    Abort(most->fd);
    strangers_.erase(most);
  }
}

int ConnectionGate::MillisecondsToWait(absl::Time now, absl::Time settles_at) const {
  absl::Time first = settles_at > now ? settles_at : absl::InfiniteFuture();
  if (has_handed_on_) first = std::min(first, next_look_);
  for (const Stranger& stranger : strangers_) {
    first = std::min(first, stranger.closes);
    if (stranger.is_with_grpc) first = std::min(first, now + kLook);
  }
  if (first == absl::InfiniteFuture()) return -1;
  const absl::Duration left = std::clamp(first - now, absl::ZeroDuration(), absl::Hours(1));
  return static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
}

}  // namespace weir
