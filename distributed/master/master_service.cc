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
#include "google/protobuf/arena.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/master.pb.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"

namespace weir {
namespace {

constexpr absl::string_view kPrefix = "/tensorflow.MasterService/";
// How long a task may take to answer a question of ListDevices or Reset.
constexpr absl::Duration kTaskPatience = absl::Seconds(60);
constexpr absl::Duration kTimerInterval = absl::Minutes(10);

Frame FrameOf(const google::protobuf::MessageLite& message) {
  Frame frame;
  frame.payloads.push_back(Payload::OfString(message.SerializeAsString()));
  return frame;
}

tensorflow::DeviceAttributes DeviceMessage(const DeviceAttributes& device) {
  tensorflow::DeviceAttributes message;
  message.set_name(device.name.ToString());
  message.set_device_type(device.name.type.value_or(""));
  message.set_memory_limit(device.memory_limit);
  message.mutable_locality();
  message.set_incarnation(device.incarnation);
  message.set_physical_device_desc(device.description);
  message.set_xla_global_id(-1);
  return message;
}

}  // namespace

// Shared by whatever works for the call. Answers once.
struct MasterService::Request {
  Request(std::shared_ptr<IncomingCall> incoming, std::shared_ptr<OpenWork::Share> open_share)
      : share(std::move(open_share)),
        call(std::move(incoming)),
        client(std::make_shared<ClientCall>(call->deadline())) {}

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

  // The client's answer, where errors may stand in its body.
  void ReplyStep(AnsweredRequests& answered, absl::StatusOr<Frame> reply) {
    if (!reply.ok() && wants_errors_in_body) reply = RunStepErrorResponse(reply.status());
    if (key.second == 0) return call->Reply(std::move(reply));
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
            .host = options.host} {}

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
  auto request = std::make_shared<Request>(call, std::move(share));
  call->OnCancel([client = request->client] { client->GiveUp(); });
  call->Compute([this, request] { Dispatch(request); });
}

void MasterService::Dispatch(std::shared_ptr<Request> request) {
  const absl::string_view method = request->method();
  absl::StatusOr<PeerUse::Share> taken =
      room_.Take({.steps = 1, .bytes = static_cast<int64_t>(request->bytes().size())},
                 absl::StrCat("a call of ", method));
  if (!taken.ok()) return request->Reply(taken.status());
  request->taken = *std::move(taken);
  if (method == "RunStep") return RunStep(std::move(request));
  if (method == "RunCallable") return RunCallable(std::move(request));
  if (method == "CreateSession") return CreateSession(std::move(request));
  if (method == "ExtendSession") return ExtendSession(*request);
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

absl::Status MasterService::AdmitFeeds(Request& request, absl::string_view handle, int64_t num_bytes,
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

void MasterService::CreateSession(std::shared_ptr<Request> request) {
  // A graph of many nodes is made, and goes, much faster in an arena.
  const auto arena = std::make_shared<google::protobuf::Arena>();
  auto* const message = google::protobuf::Arena::CreateMessage<tensorflow::CreateSessionRequest>(arena.get());
  if (const absl::Status read = request->Read(message); !read.ok()) return request->Reply(read);
  Wait(request, [this, request, arena, message] {
    const std::string handle = absl::StrCat(absl::Hex(room_.environment.Random(), absl::kZeroPad16));
    absl::StatusOr<std::shared_ptr<MasterSession>> session = MasterSession::Create(
        room_, handle, message->graph_def(), message->config(), Target(), *request->client);
    if (!session.ok()) return request->Reply(session.status());
    tensorflow::CreateSessionResponse response;
    response.set_session_handle(handle);
    Add(*std::move(session));
    request->Reply(response);
  });
}

void MasterService::Add(std::shared_ptr<MasterSession> session) {
  absl::MutexLock lock(&mutex_);
  if (is_shut_down_) return;
  sessions_.emplace(session->handle(), std::move(session));
  if (timer_ != 0) return;
  const absl::Duration interval = std::min(kTimerInterval, options_.abandoned_after);
  timer_ = options_.threads->At(room_.environment.Now() + interval, [this, share = work_.Begin()] {
    if (share != nullptr) CloseAbandoned();
  });
}

void MasterService::CloseAbandoned() {
  std::vector<std::shared_ptr<MasterSession>> abandoned;
  {
    absl::MutexLock lock(&mutex_);
    timer_ = 0;
    if (is_shut_down_) return;
    const absl::Time before = room_.environment.Now() - options_.abandoned_after;
    for (auto i = sessions_.begin(); i != sessions_.end();) {
      const auto entry = i++;
      if (entry->second->is_busy() || entry->second->last_used() > before) continue;
      abandoned.push_back(std::move(entry->second));
      sessions_.erase(entry);
    }
    if (!sessions_.empty()) {
      const absl::Duration interval = std::min(kTimerInterval, options_.abandoned_after);
      timer_ = options_.threads->At(room_.environment.Now() + interval, [this, share = work_.Begin()] {
        if (share != nullptr) CloseAbandoned();
      });
    }
  }
  for (const auto& session : abandoned) {
    answered_.Forget(session->handle());
    PrintNotice(absl::StrCat("session ", session->handle(), " of a TensorFlow client was not used for ",
                             absl::FormatDuration(options_.abandoned_after), ": it is closed"));
    work_.Wait([session] { session->Close(absl::AbortedError("the session was not used for too long")); })
        .IgnoreError();
  }
}

void MasterService::ExtendSession(Request& request) {
  tensorflow::ExtendSessionRequest message;
  if (const absl::Status read = request.Read(&message); !read.ok()) return request.Reply(read);
  const absl::StatusOr<std::shared_ptr<MasterSession>> session = Find(message.session_handle());
  if (!session.ok()) return request.Reply(session.status());
  const absl::StatusOr<int64_t> version =
      (*session)->Extend(message.graph_def(), message.current_graph_version());
  if (!version.ok()) return request.Reply(version.status());
  tensorflow::ExtendSessionResponse response;
  response.set_new_graph_version(*version);
  request.Reply(response);
}

void MasterService::RunStep(std::shared_ptr<Request> request) {
  std::shared_ptr<MasterSession> session;
  absl::StatusOr<RunStepCall> step =
      ParseRunStep(request->bytes(), [&](absl::string_view handle, int64_t num_bytes) {
        return AdmitFeeds(*request, handle, num_bytes, &session);
      });
  if (!step.ok()) return request->Reply(step.status());
  request->call->request() = Frame();
  request->wants_errors_in_body = step->wants_errors_in_body;
  request->key = {step->session, step->request_id};
  if (step->request_id != 0 && !answered_.Begin(request->key, request->call)) return;
  const auto done = [this, request, names = step->names.fetches](const absl::StatusOr<StepAnswer>& answer) {
    request->ReplyStep(
        answered_, answer.ok() ? RunStepResponse(names, answer->tensors, answer->metadata) : answer.status());
  };
  if (!step->partial_run.empty()) {
    return session->RunPart(step->partial_run, std::move(step->names), std::move(step->feeds), done);
  }
  session->Run(std::move(step->names), std::move(step->feeds), step->wishes, request->client, done);
}

void MasterService::PartialRunSetup(std::shared_ptr<Request> request) {
  tensorflow::PartialRunSetupRequest message;
  if (const absl::Status read = request->Read(&message); !read.ok()) return request->Reply(read);
  const absl::StatusOr<std::shared_ptr<MasterSession>> session = Find(message.session_handle());
  if (!session.ok()) return request->Reply(session.status());
  StepNames names;
  names.feeds.assign(message.feed().begin(), message.feed().end());
  names.fetches.assign(message.fetch().begin(), message.fetch().end());
  names.targets.assign(message.target().begin(), message.target().end());
  (*session)->StartPartialRun(std::move(names), [request](absl::StatusOr<std::string> handle) {
    if (!handle.ok()) return request->Reply(handle.status());
    tensorflow::PartialRunSetupResponse response;
    response.set_partial_run_handle(*handle);
    request->Reply(response);
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
  const auto close = [request, session] {
    session->Close(absl::CancelledError("Step was cancelled by an explicit call to `Session::Close()`."));
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
  Wait(request, [this, request, session] {
    tensorflow::ListDevicesResponse response;
    const absl::Time deadline =
        std::min(request->client->deadline(), room_.environment.Now() + kTaskPatience);
    for (Worker* worker : session != nullptr ? session->workers() : Target().workers) {
      const absl::StatusOr<std::vector<DeviceAttributes>> devices = worker->ListDevices(deadline);
      if (!devices.ok()) return request->Reply(devices.status());
      for (const DeviceAttributes& device : *devices) *response.add_local_device() = DeviceMessage(device);
    }
    request->Reply(response);
  });
}

void MasterService::Reset(std::shared_ptr<Request> request) {
  tensorflow::ResetRequest message;
  if (const absl::Status read = request->Read(&message); !read.ok()) return request->Reply(read);
  std::vector<std::string> containers(message.container().begin(), message.container().end());
  Wait(request, [this, request, containers = std::move(containers)] {
    CloseAll(/*is_final=*/false, absl::AbortedError("the session was reset"));
    absl::Status reset;
    for (Worker* worker : Target().workers) {
      const absl::Time deadline =
          std::min(request->client->deadline(), room_.environment.Now() + kTaskPatience);
      reset.Update(worker->ResetContainers(containers, deadline));
    }
    if (!reset.ok()) return request->Reply(reset);
    request->Reply(tensorflow::ResetResponse());
  });
}

void MasterService::MakeCallable(std::shared_ptr<Request> request) {
  tensorflow::MakeCallableRequest message;
  if (const absl::Status read = request->Read(&message); !read.ok()) return request->Reply(read);
  const absl::StatusOr<std::shared_ptr<MasterSession>> session = Find(message.session_handle());
  if (!session.ok()) return request->Reply(session.status());
  (*session)->MakeCallable(message.options(), request->client, [request](absl::StatusOr<int64_t> callable) {
    if (!callable.ok()) return request->Reply(callable.status());
    tensorflow::MakeCallableResponse response;
    response.set_handle(*callable);
    request->Reply(response);
  });
}

void MasterService::RunCallable(std::shared_ptr<Request> request) {
  std::shared_ptr<MasterSession> session;
  absl::StatusOr<RunCallableCall> run =
      ParseRunCallable(request->bytes(), [&](absl::string_view handle, int64_t num_bytes) {
        return AdmitFeeds(*request, handle, num_bytes, &session);
      });
  if (!run.ok()) return request->Reply(run.status());
  request->call->request() = Frame();
  request->key = {run->session, run->request_id};
  if (run->request_id != 0 && !answered_.Begin(request->key, request->call)) return;
  session->RunCallable(run->callable, std::move(run->feeds), request->client,
                       [this, request](const absl::StatusOr<StepAnswer>& answer) {
                         request->ReplyStep(
                             answered_, answer.ok() ? RunCallableResponse(answer->tensors, answer->metadata)
                                                    : answer.status());
                       });
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
  Threads::TimerId timer = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (is_final) is_shut_down_ = true;
    sessions.swap(sessions_);
    if (is_final) std::swap(timer, timer_);
  }
  options_.threads->Forget(timer);
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
