#include "distributed/master/master_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "distributed/master/confined_worker.h"
#include "distributed/master/step_error.h"
#include "distributed/master/step_messages.h"
#include "distributed/master/task_question.h"
#include "google/protobuf/arena.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/master.pb.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"

namespace weir {
namespace {

constexpr absl::string_view kPrefix = "/tensorflow.MasterService/";
constexpr absl::Duration kTimerInterval = absl::Minutes(10);
// What TensorFlow says of a device whose memory has no limit of its own.
constexpr int64_t kNominalMemory = int64_t{256} << 20;

Frame FrameOf(const google::protobuf::MessageLite& message) {
  Frame frame;
  frame.payloads.push_back(Payload::OfString(message.SerializeAsString()));
  return frame;
}

tensorflow::DeviceAttributes DeviceMessage(const DeviceAttributes& device) {
  tensorflow::DeviceAttributes message;
  message.set_name(device.name.ToString());
  message.set_device_type(device.name.type.value_or(""));
  message.set_memory_limit(device.memory_limit > 0 ? device.memory_limit : kNominalMemory);
  message.mutable_locality();
  message.set_incarnation(device.incarnation);
  message.set_physical_device_desc(device.description);
  message.set_xla_global_id(-1);
  return message;
}

}  // namespace

// Shared by whatever works for the call. Answers once.
struct MasterService::Request {
  Request(std::shared_ptr<IncomingCall> incoming, std::shared_ptr<OpenWork::Share> open_share,
          Environment& environment, OpenWork& work)
      : share(std::move(open_share)),
        call(std::move(incoming)),
        client(std::make_shared<ClientCall>(environment, work, call->deadline())) {}

  absl::string_view method() const { return absl::StripPrefix(call->method(), kPrefix); }

  // Empty when there is nothing to read.
  absl::string_view bytes() {
    const Frame& frame = call->request();
    return frame.payloads.empty() ? absl::string_view() : frame.payloads[0].bytes();
  }

  // InvalidArgument when the message is none. The bytes are gone then.
  template <typename Message>
  absl::Status Read(Message* message) {
    const absl::Status read = ParseMessageBytes(bytes(), absl::StrCat("a ", method(), "Request"), message);
    call->request() = Frame();
    return read;
  }

  void Reply(absl::StatusOr<Frame> reply) { call->Reply(std::move(reply)); }
  void Reply(const google::protobuf::MessageLite& message) { call->Reply(FrameOf(message)); }

  // Of a call that may come twice; errors of steps may stand in the body.
  void ReplyOnce(AnsweredRequests& answered, absl::StatusOr<Frame> reply) {
    if (!reply.ok() && wants_errors_in_body) reply = RunStepErrorResponse(reply.status());
    if (key.request_id == 0) return call->Reply(std::move(reply));
    answered.Answer(key, *call, std::move(reply));
  }

  const std::shared_ptr<OpenWork::Share> share;  // last to go
  const std::shared_ptr<IncomingCall> call;
  const std::shared_ptr<ClientCall> client;
  // While the call is open.
  PeerUse::Share taken;
  std::vector<PeerUse::Share> taken_by_feeds;
  bool wants_errors_in_body = false;
  AnsweredRequests::Key key;  // id 0: none
};

MasterService::MasterService(const MasterOptions& options)
    : options_(options),
      use_(options.limits),
      work_(*options.environment, *options.threads),
      room_{.ops = *options.ops,
            .environment = *options.environment,
            .work = work_,
            .use = use_,
            .host = options.host,
            .is_done = options.is_done,
            .make_room = [this] { return answered_.DropOldest(); }},
      answered_([this](int64_t num_bytes) { return room_.Take({.bytes = num_bytes}, "an answer"); }) {}

MasterService::~MasterService() {
  Shutdown();
  work_.AwaitEnd();
  absl::MutexLock lock(&mutex_);
  sessions_.clear();
}

bool MasterService::Handles(absl::string_view method) { return absl::StartsWith(method, kPrefix); }

void MasterService::Handle(std::shared_ptr<IncomingCall> call) {
  std::shared_ptr<OpenWork::Share> share = work_.Begin();
  if (share == nullptr) return call->Reply(absl::UnavailableError("the server is shutting down"));
  auto request = std::make_shared<Request>(call, std::move(share), room_.environment, work_);
  call->OnCancel([client = request->client] { client->Gone(); });
  call->Compute([this, request] { Dispatch(request); });
}

void MasterService::Dispatch(std::shared_ptr<Request> request) {
  const absl::string_view method = request->method();
  // What ends work must not wait for room that the work takes.
  const bool frees = (method == "CloseSession" || method == "ReleaseCallable") &&
                     request->bytes().size() <= AnsweredRequests::kSmallBytes;
  absl::StatusOr<PeerUse::Share> taken = PeerUse::Share();
  if (!frees) {
    taken = room_.Take({.steps = 1, .bytes = static_cast<int64_t>(request->bytes().size())},
                       absl::StrCat("a call of ", method));
  }
  if (!taken.ok()) return request->Reply(taken.status());
  request->taken = *std::move(taken);
  if (method == "RunStep") return RunStep(std::move(request));
  if (method == "RunCallable") return RunCallable(std::move(request));
  if (method == "CreateSession") return CreateSession(std::move(request));
  if (method == "ExtendSession") return ExtendSession(std::move(request));
  if (method == "PartialRunSetup") return PartialRunSetup(std::move(request));
  if (method == "CloseSession") return CloseSession(std::move(request));
  if (method == "ListDevices") return ListDevices(std::move(request));
  if (method == "Reset") return Reset(std::move(request));
  if (method == "MakeCallable") return MakeCallable(std::move(request));
  if (method == "ReleaseCallable") return ReleaseCallable(*request);
  request->Reply(absl::UnimplementedError(
      absl::StrCat("this server does not know the method ", request->call->method())));
}

void MasterService::Wait(const std::shared_ptr<Request>& request, std::function<void()> work) {
  const absl::Status begun = work_.Wait([work = std::move(work)] { work(); });
  if (!begun.ok()) request->Reply(begun);
}

absl::StatusOr<std::shared_ptr<MasterSession>> MasterService::Find(absl::string_view handle) const {
  absl::MutexLock lock(&mutex_);
  const auto known = sessions_.find(handle);
  if (known != sessions_.end()) return known->second;
  return UnknownSession(handle, /*may_have_restarted=*/false);
}

absl::Status MasterService::TakeRoomFor(Request& request, absl::string_view handle, int64_t num_bytes,
                                        std::shared_ptr<MasterSession>* session) {
  if (*session == nullptr) {
    WEIR_ASSIGN_OR_RETURN(*session, Find(handle));
  }
  if (num_bytes == 0) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(PeerUse::Share share, room_.Take({.bytes = num_bytes}, "a feed"));
  request.taken_by_feeds.push_back(std::move(share));
  return absl::OkStatus();
}

const SessionTarget& MasterService::Target() {
  absl::MutexLock lock(&mutex_);
  if (target_ != nullptr) return *target_;
  SessionTarget target = options_.target();
  for (Worker*& worker : target.workers) {
    if (options_.files == nullptr || !worker->task().IsSameTask(target.default_task)) continue;
    own_worker_ = std::make_unique<ConfinedWorker>(*worker, options_.files);
    worker = own_worker_.get();
  }
  target_ = std::make_unique<const SessionTarget>(std::move(target));
  return *target_;
}

template <typename Message>
std::shared_ptr<const Message> MasterService::ReadGraph(Request& request, absl::string_view what) {
  // A graph of many nodes is made, and goes, much faster in an arena.
  const auto arena = std::make_shared<google::protobuf::Arena>();
  auto* const message = google::protobuf::Arena::CreateMessage<Message>(arena.get());
  if (const absl::Status read = request.Read(message); !read.ok()) {
    request.Reply(read);
    return nullptr;
  }
  // What it is in memory is more than its bytes, many times more for a hostile one.
  absl::StatusOr<PeerUse::Share> room =
      room_.Take({.bytes = static_cast<int64_t>(arena->SpaceAllocated())}, what);
  if (!room.ok()) {
    request.Reply(room.status());
    return nullptr;
  }
  request.taken_by_feeds.push_back(*std::move(room));
  return {arena, message};
}

void MasterService::CreateSession(std::shared_ptr<Request> request) {
  const auto message = ReadGraph<tensorflow::CreateSessionRequest>(*request, "the graph of a new session");
  if (message == nullptr) return;
  Wait(request, [this, request, message] {
    const std::string handle = absl::StrCat(absl::Hex(room_.environment.Random(), absl::kZeroPad16));
    const auto created = [this, request](absl::StatusOr<std::shared_ptr<MasterSession>> session) {
      if (!session.ok()) return request->Reply(session.status());
      absl::Status added = request->client->is_given_up() ? ClientCall::GivenUp() : Add(*session);
      if (!added.ok()) {
        (*session)->Close(added);
        session->reset();
        return request->Reply(added);
      }
      tensorflow::CreateSessionResponse response;
      response.set_session_handle((*session)->handle());
      request->Reply(response);
    };
    MasterSession::Create(room_, handle, message->graph_def(), message->config(), Target(), request->client,
                          created);
    request->taken_by_feeds.clear();
  });
}

absl::Status MasterService::Add(std::shared_ptr<MasterSession> session) {
  absl::MutexLock lock(&mutex_);
  if (is_shut_down_) return absl::UnavailableError("the server is shutting down");
  sessions_.emplace(session->handle(), std::move(session));
  if (std::exchange(looks_for_abandoned_, true)) return absl::OkStatus();
  LookForAbandoned();
  return absl::OkStatus();
}

void MasterService::LookForAbandoned() {
  const absl::Duration interval = std::min(kTimerInterval, options_.abandoned_after);
  work_.Later(room_.environment.Now() + interval, [this] {
    const absl::Status status = work_.Wait([this] { CloseAbandoned(); });
    if (status.ok() || work_.is_closed()) return;
    absl::MutexLock lock(&mutex_);
    LookForAbandoned();  // too much waits now
  });
}

void MasterService::CloseAbandoned() {
  std::vector<std::shared_ptr<MasterSession>> abandoned;
  {
    absl::MutexLock lock(&mutex_);
    if (is_shut_down_) return;
    const absl::Time before = room_.environment.Now() - options_.abandoned_after;
    for (auto i = sessions_.begin(); i != sessions_.end();) {
      const auto entry = i++;
      if (entry->second->is_busy() || entry->second->last_used() > before) continue;
      abandoned.push_back(std::move(entry->second));
      sessions_.erase(entry);
    }
    looks_for_abandoned_ = !sessions_.empty();
    if (looks_for_abandoned_) LookForAbandoned();
  }
  for (const auto& session : abandoned) {
    answered_.Forget(session->handle());
    PrintNotice(absl::StrCat("session ", session->handle(), " of a TensorFlow client was not used for ",
                             absl::FormatDuration(options_.abandoned_after), ": it is closed"));
    session->Close(absl::AbortedError("the session was not used for too long"));
  }
}

void MasterService::ExtendSession(std::shared_ptr<Request> request) {
  const auto message =
      ReadGraph<tensorflow::ExtendSessionRequest>(*request, "the graph that extends a session");
  if (message == nullptr) return;
  const absl::StatusOr<std::shared_ptr<MasterSession>> session = Find(message->session_handle());
  if (!session.ok()) return request->Reply(session.status());
  Wait(request, [request, message, session = *session] {
    const absl::StatusOr<int64_t> version =
        session->Extend(message->graph_def(), message->current_graph_version());
    request->taken_by_feeds.clear();
    if (!version.ok()) return request->Reply(version.status());
    tensorflow::ExtendSessionResponse response;
    response.set_new_graph_version(*version);
    request->Reply(response);
  });
}

template <typename Call>
bool MasterService::Read(Request& request, absl::StatusOr<Call> (*parse)(absl::string_view, AdmitFeeds),
                         Call* call, std::shared_ptr<MasterSession>* session) {
  absl::StatusOr<Call> read = parse(request.bytes(), [&](absl::string_view handle, int64_t num_bytes) {
    return TakeRoomFor(request, handle, num_bytes, session);
  });
  if (!read.ok()) {
    request.Reply(read.status());
    return false;
  }
  *call = *std::move(read);
  const size_t fingerprint = AnsweredRequests::FingerprintOf(request.bytes());
  request.call->request() = Frame();
  request.key = {call->session, std::string(request.method()), call->request_id};
  return call->request_id == 0 || answered_.Begin(request.key, fingerprint, request.call, request.client);
}

template <typename Message>
std::shared_ptr<MasterSession> MasterService::ReadOnce(Request& request, Message* message) {
  const size_t fingerprint = AnsweredRequests::FingerprintOf(request.bytes());
  const absl::Status read = request.Read(message);
  absl::StatusOr<std::shared_ptr<MasterSession>> session =
      read.ok() ? Find(message->session_handle()) : absl::StatusOr<std::shared_ptr<MasterSession>>(read);
  if (!session.ok()) {
    request.Reply(session.status());
    return nullptr;
  }
  request.key = {message->session_handle(), std::string(request.method()), message->request_id()};
  const bool is_first =
      message->request_id() == 0 || answered_.Begin(request.key, fingerprint, request.call, request.client);
  return is_first ? *std::move(session) : nullptr;
}

void MasterService::RunStep(std::shared_ptr<Request> request) {
  RunStepCall step;
  std::shared_ptr<MasterSession> session;
  if (!Read(*request, &ParseRunStep, &step, &session)) return;
  request->wants_errors_in_body = step.wants_errors_in_body;
  const auto done = [this, request, names = step.names.fetches](const absl::StatusOr<StepAnswer>& answer) {
    request->ReplyOnce(
        answered_, answer.ok() ? RunStepResponse(names, answer->tensors, answer->metadata) : answer.status());
  };
  const absl::Status begun = work_.ComputeHere([request, session, done, step = std::move(step)]() mutable {
    if (step.partial_run.empty()) {
      return session->Run(std::move(step.names), std::move(step.feeds), step.wishes, request->client, done);
    }
    session->RunPart(step.partial_run, std::move(step.names), std::move(step.feeds),
                     std::exchange(request->taken_by_feeds, {}), step.wishes, request->client, done);
  });
  if (!begun.ok()) done(begun);
}

void MasterService::PartialRunSetup(std::shared_ptr<Request> request) {
  tensorflow::PartialRunSetupRequest message;
  const std::shared_ptr<MasterSession> session = ReadOnce(*request, &message);
  if (session == nullptr) return;
  StepNames names;
  names.feeds.assign(message.feed().begin(), message.feed().end());
  names.fetches.assign(message.fetch().begin(), message.fetch().end());
  names.targets.assign(message.target().begin(), message.target().end());
  session->StartPartialRun(std::move(names), request->client,
                           [this, request](absl::StatusOr<std::string> handle) {
                             if (!handle.ok()) return request->ReplyOnce(answered_, handle.status());
                             tensorflow::PartialRunSetupResponse response;
                             response.set_partial_run_handle(*handle);
                             request->ReplyOnce(answered_, FrameOf(response));
                           });
}

void MasterService::CloseSession(std::shared_ptr<Request> request) {
  tensorflow::CloseSessionRequest message;
  if (const absl::Status read = request->Read(&message); !read.ok()) return request->Reply(read);
  std::shared_ptr<MasterSession> session;
  {
    absl::MutexLock lock(&mutex_);
    const auto known = sessions_.find(message.session_handle());
    if (known != sessions_.end()) {
      session = std::move(known->second);
      sessions_.erase(known);
    }
  }
  if (session == nullptr) {
    return request->Reply(UnknownSession(message.session_handle(), /*may_have_restarted=*/true));
  }
  answered_.Forget(session->handle());
  // What it took is given back before its client hears that it is closed.
  const auto held = std::make_shared<std::shared_ptr<MasterSession>>(std::move(session));
  const auto close = [request, held] {
    (*held)->Close(absl::CancelledError("Step was cancelled by an explicit call to `Session::Close()`."));
    held->reset();
    request->Reply(tensorflow::CloseSessionResponse());
  };
  // It is closed also where nothing more may wait.
  if (!work_.Wait(close).ok()) close();
}

void MasterService::ListDevices(std::shared_ptr<Request> request) {
  tensorflow::ListDevicesRequest message;
  if (const absl::Status read = request->Read(&message); !read.ok()) return request->Reply(read);
  std::shared_ptr<MasterSession> session;
  if (!message.session_handle().empty()) {
    absl::StatusOr<std::shared_ptr<MasterSession>> found = Find(message.session_handle());
    if (!found.ok()) {
      return request->Reply(absl::InvalidArgumentError(
          UnknownSession(message.session_handle(), /*may_have_restarted=*/true).message()));
    }
    session = *std::move(found);
  }
  // By task, in their order.
  const auto devices = std::make_shared<std::vector<std::vector<DeviceAttributes>>>();
  const std::vector<Worker*> workers =
      room_.WithoutThoseDone(session != nullptr ? session->workers() : Target().workers);
  devices->resize(workers.size());
  TaskQuestion question;
  question.workers = workers;
  question.call = request->client;
  question.ask = [devices](size_t index, Worker& worker, absl::Time deadline) {
    WEIR_ASSIGN_OR_RETURN((*devices)[index], worker.ListDevices(deadline));
    return absl::OkStatus();
  };
  question.done = [request, session, devices](const absl::Status& status) {
    if (!status.ok()) return request->Reply(status);
    tensorflow::ListDevicesResponse response;
    for (const std::vector<DeviceAttributes>& of_task : *devices) {
      for (const DeviceAttributes& device : of_task) *response.add_local_device() = DeviceMessage(device);
    }
    request->Reply(response);
  };
  TaskQuestion::Ask(work_, room_.environment, std::move(question));
}

void MasterService::Reset(std::shared_ptr<Request> request) {
  tensorflow::ResetRequest message;
  if (const absl::Status read = request->Read(&message); !read.ok()) return request->Reply(read);
  std::vector<std::string> containers(message.container().begin(), message.container().end());
  Wait(request, [this, request, containers = std::move(containers)] {
    CloseAll(/*is_final=*/false, absl::AbortedError("the session was reset"));
    TaskQuestion question;
    question.workers = room_.WithoutThoseDone(Target().workers);
    question.call = request->client;
    question.ask = [containers](size_t /*index*/, Worker& worker, absl::Time deadline) {
      return worker.ResetContainers(containers, deadline);
    };
    question.ends_with_first_error = false;
    question.done = [request](const absl::Status& status) {
      if (!status.ok()) return request->Reply(status);
      request->Reply(tensorflow::ResetResponse());
    };
    TaskQuestion::Ask(work_, room_.environment, std::move(question));
  });
}

void MasterService::MakeCallable(std::shared_ptr<Request> request) {
  tensorflow::MakeCallableRequest message;
  const std::shared_ptr<MasterSession> session = ReadOnce(*request, &message);
  if (session == nullptr) return;
  session->MakeCallable(message.options(), request->client,
                        [this, request](absl::StatusOr<int64_t> callable) {
                          if (!callable.ok()) return request->ReplyOnce(answered_, callable.status());
                          tensorflow::MakeCallableResponse response;
                          response.set_handle(*callable);
                          request->ReplyOnce(answered_, FrameOf(response));
                        });
}

void MasterService::RunCallable(std::shared_ptr<Request> request) {
  RunCallableCall run;
  std::shared_ptr<MasterSession> session;
  if (!Read(*request, &ParseRunCallable, &run, &session)) return;
  const auto done = [this, request](const absl::StatusOr<StepAnswer>& answer) {
    request->ReplyOnce(
        answered_, answer.ok() ? RunCallableResponse(answer->tensors, answer->metadata) : answer.status());
  };
  const absl::Status begun = work_.ComputeHere([request, session, done, run = std::move(run)]() mutable {
    session->RunCallable(run.callable, std::move(run.feeds), request->client, done);
  });
  if (!begun.ok()) done(begun);
}

void MasterService::ReleaseCallable(Request& request) {
  tensorflow::ReleaseCallableRequest message;
  if (const absl::Status read = request.Read(&message); !read.ok()) return request.Reply(read);
  const absl::StatusOr<std::shared_ptr<MasterSession>> session = Find(message.session_handle());
  if (!session.ok()) return request.Reply(session.status());
  (*session)->ReleaseCallable(message.handle());
  request.Reply(tensorflow::ReleaseCallableResponse());
}

void MasterService::CloseAll(bool is_final, const absl::Status& reason) {
  absl::flat_hash_map<std::string, std::shared_ptr<MasterSession>> sessions;
  {
    absl::MutexLock lock(&mutex_);
    if (is_final) is_shut_down_ = true;
    sessions.swap(sessions_);
  }
  for (const auto& [handle, session] : sessions) {
    session->Close(reason);
    answered_.Forget(handle);
  }
}

void MasterService::Shutdown() {
  work_.Close();
  CloseAll(/*is_final=*/true, absl::UnavailableError("the server is shutting down"));
}

size_t MasterService::num_sessions() const {
  absl::MutexLock lock(&mutex_);
  return sessions_.size();
}

}  // namespace weir
