#include "distributed/master/master_session.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/master/step_error.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/proto/config.pb.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/step_stats.h"
#include "graph/rewrite/prune.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"
#include "kernels/threads.h"
#include "session/step_trace.h"

namespace weir {
namespace {

// How long compiling may take. A step of TensorFlow's has no limit of its own.
constexpr absl::Duration kCompileTimeout = absl::Minutes(10);
// After which a line says who is waited for; and every so often.
constexpr absl::Duration kNoticeAfter = absl::Seconds(10);
constexpr absl::Duration kNoticeEvery = absl::Minutes(1);
// Compiled steps that the Session keeps beside those of PreparedSteps: of partial runs.
constexpr int kMaxSessionSteps = 64;
// What a node takes while its graph is compiled, about: copies of it, and what the passes note of it.
constexpr int64_t kBytesToCompileNode = 4 << 10;

std::vector<TensorRef> Refs(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

absl::StatusOr<std::vector<Worker*>> Filter(const SessionTarget& target,
                                            const tensorflow::ConfigProto& config) {
  std::vector<DeviceName> filters;
  for (const std::string& text : config.device_filters()) {
    absl::StatusOr<DeviceName> filter = DeviceName::Parse(text);
    if (!filter.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("device filter '", text, "': ", filter.status().message()));
    }
    filter->type.reset();
    filter->index.reset();
    filters.push_back(*std::move(filter));
  }
  std::vector<Worker*> workers;
  for (Worker* worker : target.workers) {
    const bool is_own = worker->task().IsSameTask(target.default_task);
    if (is_own || filters.empty() ||
        std::any_of(filters.begin(), filters.end(),
                    [&](const DeviceName& filter) { return filter.Matches(worker->task()); })) {
      workers.push_back(worker);
    }
  }
  return workers;
}

SessionOptions OptionsOfConfig(const tensorflow::ConfigProto& config, const SessionTarget& target) {
  SessionOptions options;
  options.default_task = target.default_task;
  options.allow_soft_placement = config.allow_soft_placement();
  options.log_placement = config.log_device_placement();
  options.operation_timeout = kCompileTimeout;
  options.max_cached_signatures = kMaxSessionSteps;
  options.isolate_session_state = config.isolate_session_state();
  options.environment = target.environment;
  const auto level = config.graph_options().optimizer_options().opt_level();
  options.rewrites.is_enabled = level != tensorflow::OptimizerOptions::L0 &&
                                !config.graph_options().rewrite_options().disable_meta_optimizer();
  return options;
}

}  // namespace

std::vector<Worker*> MasterRoom::WithoutThoseDone(std::vector<Worker*> workers) const {
  if (is_done) {
    std::erase_if(workers, [&](const Worker* worker) { return is_done(*worker); });
  }
  return workers;
}

absl::StatusOr<PeerUse::Share> MasterRoom::Take(const PeerUse::Amount& amount, absl::string_view what) const {
  static constexpr Incarnation kAll = 0;
  const TaskName clients = {"clients", 0};
  const auto lacks_bytes = [&] {
    return amount.bytes > 0 && !use.Take(clients, kAll, {.bytes = amount.bytes}, what).ok();
  };
  absl::StatusOr<PeerUse::Share> share = use.Take(clients, kAll, amount, what);
  while (!share.ok() && lacks_bytes() && make_room()) share = use.Take(clients, kAll, amount, what);
  return share;
}

class MasterSession::Busy {
 public:
  explicit Busy(std::shared_ptr<MasterSession> session) : session_(std::move(session)) {
    ++session_->num_busy_;
  }
  ~Busy() {
    if (session_ == nullptr) return;
    {
      absl::MutexLock lock(&session_->mutex_);
      session_->last_used_ = session_->room_.environment.Now();
    }
    --session_->num_busy_;
  }
  Busy(const Busy& other) : Busy(other.session_) {}
  Busy(Busy&& other) noexcept : session_(std::move(other.session_)) {}
  Busy& operator=(const Busy&) = delete;

  MasterSession* operator->() const { return session_.get(); }

 private:
  std::shared_ptr<MasterSession> session_;
};

MasterSession::Busy MasterSession::BeginUse() { return Busy(shared_from_this()); }

MasterSession::MasterSession(const MasterRoom& room, std::string handle)
    : room_(room),
      handle_(std::move(handle)),
      graph_(room.ops, room.host, [this](int64_t num_bytes) { return AdmitGraph(num_bytes); }),
      last_used_(room.environment.Now()) {}

MasterSession::~MasterSession() = default;

struct MasterSession::Creation {
  std::shared_ptr<MasterSession> session;
  SessionOptions options;
  const KernelRegistry* kernels;
  std::shared_ptr<ClientCall> call;
  Created done;
  const std::string handle;
  const absl::Time begun;
  bool is_repeated = false;

  absl::Mutex mutex;
  std::string waits_for ABSL_GUARDED_BY(mutex);  // what the last attempt ended with
  OpenWork::TimerId notice ABSL_GUARDED_BY(mutex) = 0;
};

void MasterSession::Create(const MasterRoom& room, std::string handle, const tensorflow::GraphDef& graph_def,
                           const tensorflow::ConfigProto& config, const SessionTarget& target,
                           std::shared_ptr<ClientCall> call, Created done) {
  std::shared_ptr<MasterSession> session(new MasterSession(room, std::move(handle)));
  if (const absl::Status begun = session->Begin(graph_def, config, target); !begun.ok()) {
    session.reset();  // what it took is given back before its client hears of the error
    return done(begun);
  }
  const std::string& its_handle = session->handle();
  // Nobody else holds it: what it took must be given back in End.
  const std::shared_ptr<Creation> creation(new Creation{.session = std::move(session),
                                                        .options = OptionsOfConfig(config, target),
                                                        .kernels = target.kernels,
                                                        .call = std::move(call),
                                                        .done = std::move(done),
                                                        .handle = its_handle,
                                                        .begun = room.environment.Now()});
  TryToStart(creation);
}

absl::Status MasterSession::AdmitGraph(int64_t num_bytes) {
  graph_mutex_.AssertHeld();
  WEIR_ASSIGN_OR_RETURN(PeerUse::Share share,
                        room_.Take({.bytes = num_bytes}, absl::StrCat("the graph of session ", handle_)));
  admitted_.push_back(std::move(share));
  return absl::OkStatus();
}

absl::Status MasterSession::AddToGraph(const tensorflow::GraphDef& graph_def) {
  const absl::Status added = graph_.Add(graph_def);
  if (added.ok()) std::move(admitted_.begin(), admitted_.end(), std::back_inserter(shares_));
  admitted_.clear();
  return added;
}

absl::Status MasterSession::Begin(const tensorflow::GraphDef& graph_def,
                                  const tensorflow::ConfigProto& config, const SessionTarget& target) {
  if (config.cluster_def().job_size() > 0) {
    return absl::UnimplementedError(
        "the session's config has a cluster_def: the cluster is that of the server (weir serve "
        "--cluster_spec), and a session cannot bring its own; leave cluster_def out");
  }
  if (config.use_per_session_threads() || config.session_inter_op_thread_pool_size() > 0) {
    return absl::InvalidArgumentError("Distributed session does not support session thread pool options.");
  }
  if (config.operation_timeout_in_ms() > 0) {
    operation_timeout_ = absl::Milliseconds(config.operation_timeout_in_ms());
  }
  own_task_ = target.default_task;
  WEIR_ASSIGN_OR_RETURN(workers_, Filter(target, config));
  absl::MutexLock lock(&graph_mutex_);
  WEIR_ASSIGN_OR_RETURN(PeerUse::Share place, room_.Take({.sessions = 1}, "a session"));
  {
    absl::MutexLock place_lock(&mutex_);
    place_ = std::move(place);
  }
  return AddToGraph(graph_def);
}

// One attempt where waiting is allowed; after it another one, or the answer. Those that follow have threads
// of their own: many clients may wait for one task that is not there.
void MasterSession::TryToStart(const std::shared_ptr<Creation>& creation) {
  OpenWork& work = creation->session->room_.work;
  const absl::Status begun = work.Wait(
      [creation] {
        MasterSession& session = *creation->session;
        const absl::Status started = session.Start(*creation);
        const absl::Time now = session.room_.environment.Now(), end = creation->call->deadline();
        const bool may_come = absl::IsUnavailable(started) || absl::IsDeadlineExceeded(started);
        if (!may_come || creation->call->is_given_up() || session.room_.work.is_closed() || now >= end) {
          return End(*creation, started);
        }
        {
          absl::MutexLock lock(&creation->mutex);
          creation->waits_for = std::string(started.message());
        }
        if (!std::exchange(creation->is_repeated, true)) {
          NoticeAt(creation->begun + kNoticeAfter, creation, session.room_.work);
        }
        session.room_.work.Later(std::min(now + OpenWork::kPause, end), [creation] { TryToStart(creation); });
      },
      creation->is_repeated);
  if (!begun.ok()) End(*creation, begun);
}

void MasterSession::End(Creation& creation, const absl::Status& started) {
  OpenWork::TimerId notice = 0;
  {
    absl::MutexLock lock(&creation.mutex);
    notice = std::exchange(creation.notice, 0);
  }
  creation.session->room_.work.Forget(notice);
  if (started.ok()) return creation.done(std::move(creation.session));
  creation.session.reset();  // what it took is given back before its client hears of the error
  creation.done(started);
}

// By a timer: with many clients that wait, attempts are far between.
void MasterSession::NoticeAt(absl::Time when, const std::weak_ptr<Creation>& waiting, OpenWork& work) {
  const OpenWork::TimerId notice = work.Later(when, [waiting, when, &work] {
    const std::shared_ptr<Creation> creation = waiting.lock();
    if (creation == nullptr || work.is_closed()) return;
    std::string text;
    {
      absl::MutexLock lock(&creation->mutex);
      if (creation->notice == 0) return;  // it is over
      text =
          absl::StrCat("session ", creation->handle, " of a TensorFlow client waits: ", creation->waits_for);
    }
    PrintNotice(text);
    NoticeAt(when + kNoticeEvery, creation, work);
  });
  const std::shared_ptr<Creation> creation = waiting.lock();
  if (creation == nullptr) return;
  absl::MutexLock lock(&creation->mutex);
  creation->notice = notice;
}

absl::Status MasterSession::Start(Creation& creation) {
  const Graph* graph = nullptr;
  {
    absl::ReaderMutexLock lock(&graph_mutex_);
    graph = &graph_.graph();
  }
  const absl::Duration left = creation.call->deadline() - room_.environment.Now();
  if (left <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("the call has run out of time before the session's tasks were asked");
  }
  workers_ = room_.WithoutThoseDone(std::move(workers_));  // also those that ended since the last attempt
  creation.options.creation_timeout =
      std::min(creation.is_repeated ? OpenWork::kAttempt : OpenWork::kFirstAttempt, left);
  WEIR_ASSIGN_OR_RETURN(session_, Session::Create(*graph, workers_, *creation.kernels, creation.options));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MasterSession::Extend(const tensorflow::GraphDef& graph_def, int64_t version) {
  const Busy busy = BeginUse();
  absl::MutexLock lock(&graph_mutex_);
  if (version != graph_version_) {
    return absl::AbortedError(
        absl::StrCat("Current version is ", graph_version_, " but caller expected ", version, "."));
  }
  WEIR_RETURN_IF_ERROR(session_->Extend([&] {
    graph_mutex_.AssertHeld();
    return AddToGraph(graph_def);
  }));
  num_forgotten_shapes_ = NumForgottenShapes(graph_.graph());
  return ++graph_version_;
}

// What was compiled before the graph forgot shapes is not for this one.
std::string MasterSession::KeyOf(const StepNames& names) const {
  std::string key = absl::StrCat(num_forgotten_shapes_.load(), "\n");
  for (const std::vector<std::string>* list : {&names.feeds, &names.fetches, &names.targets}) {
    absl::StrAppend(&key, list->size(), "\n", absl::StrJoin(*list, "\n"), "\n");
  }
  return key;
}

absl::Status MasterSession::Check(StepNames* names) const {
  absl::ReaderMutexLock lock(&graph_mutex_);
  return graph_.Check(names);
}

absl::StatusOr<std::shared_ptr<PreparedStep>> MasterSession::Prepare(StepNames names, const std::string& key,
                                                                     const ClientCall& call) {
  if (call.is_given_up()) return ClientCall::GivenUp();
  if (std::shared_ptr<PreparedStep> known = prepared_.Find(key)) return known;
  WEIR_RETURN_IF_ERROR(Check(&names));
  WEIR_ASSIGN_OR_RETURN(PeerUse::Share room,
                        room_.Take({.plans = 1, .bytes = static_cast<int64_t>(2 * key.size())},
                                   absl::StrCat("another set of feeds and fetches of session ", handle_)));
  WEIR_ASSIGN_OR_RETURN(const PeerUse::Share compiling, RoomToCompile());
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<PreparedStep> step,
                        session_->Prepare(Refs(names.feeds), Refs(names.fetches),
                                          {names.targets.begin(), names.targets.end()}, call.deadline()));
  prepared_.Add(key, step, std::move(room));
  return step;
}

absl::StatusOr<PeerUse::Share> MasterSession::RoomToCompile() const {
  int64_t num_nodes = 0;
  {
    absl::ReaderMutexLock lock(&graph_mutex_);
    num_nodes = graph_.graph().num_nodes();
  }
  return room_.Take({.bytes = num_nodes * kBytesToCompileNode},
                    absl::StrCat("compiling a step of session ", handle_));
}

absl::StatusOr<std::string> MasterSession::PartitionGraphs(StepNames names, const ClientCall& call) {
  if (call.is_given_up()) return ClientCall::GivenUp();
  WEIR_RETURN_IF_ERROR(Check(&names));
  WEIR_ASSIGN_OR_RETURN(const PeerUse::Share compiling, RoomToCompile());
  WEIR_ASSIGN_OR_RETURN(
      const std::vector<std::unique_ptr<Graph>> graphs,
      session_->PartitionGraphs(Refs(names.feeds), Refs(names.fetches),
                                {names.targets.begin(), names.targets.end()}, call.deadline()));
  std::vector<std::string> graph_defs;
  for (const auto& graph : graphs) {
    tensorflow::GraphDef graph_def;
    WEIR_RETURN_IF_ERROR(ExportGraphDef(*graph, {}, &graph_def));
    graph_defs.push_back(graph_def.SerializeAsString());
  }
  return PartitionGraphsMetadata(graph_defs);
}

absl::Status MasterSession::ForClient(const absl::Status& error) const {
  if (absl::IsCancelled(error)) {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
  }
  return StepErrorForClient(error, own_task_);
}

absl::StatusOr<RunOptions> MasterSession::OptionsOf(const StepWishes& wishes, const ClientCall& call) const {
  const absl::Duration left = call.deadline() - room_.environment.Now();
  RunOptions options;
  options.timeout = std::min({wishes.timeout, operation_timeout_, left});
  if (options.timeout > absl::ZeroDuration()) return options;
  return absl::DeadlineExceededError("the call has run out of time before its step began");
}

void MasterSession::Run(StepNames names, std::vector<Tensor> feeds, const StepWishes& wishes,
                        std::shared_ptr<ClientCall> call, Done done) {
  const Busy busy = BeginUse();
  std::string key = KeyOf(names);
  const std::shared_ptr<PreparedStep> known = prepared_.Find(key);
  if (known != nullptr && !wishes.partition_graphs) {
    return RunPrepared(*known, feeds, wishes, call, "", std::move(done));
  }
  const absl::Status begun = room_.work.Wait(
      [done, busy, names = std::move(names), key = std::move(key), feeds = std::move(feeds), wishes, call] {
        const absl::StatusOr<std::shared_ptr<PreparedStep>> step = busy->Prepare(names, key, *call);
        if (!step.ok()) return done(busy->ForClient(step.status()));
        absl::StatusOr<std::string> metadata = "";
        if (wishes.partition_graphs) metadata = busy->PartitionGraphs(names, *call);
        if (!metadata.ok()) return done(busy->ForClient(metadata.status()));
        const auto run = [done, busy, step = *step, feeds, wishes, call, metadata = *std::move(metadata)] {
          busy->RunPrepared(*step, feeds, wishes, call, metadata, done);
        };
        if (!busy->room_.work.Compute(run).ok()) run();
      });
  if (!begun.ok()) done(begun);
}

void MasterSession::RunPrepared(PreparedStep& step, const std::vector<Tensor>& feeds,
                                const StepWishes& wishes, const std::shared_ptr<ClientCall>& call,
                                std::string metadata, Done done) {
  const absl::StatusOr<RunOptions> options = OptionsOf(wishes, *call);
  if (!options.ok()) return done(options.status());
  const auto trace = wishes.trace ? std::make_shared<StepTrace>() : nullptr;
  // Computes when this ends: until the call knew of its step, it could not end it.
  const RunScope scope;
  const std::shared_ptr<Step> running = step.Start(feeds, *options, trace);
  call->SetStep(running);
  running->OnDone([done = std::move(done), busy = BeginUse(), call, trace,
                   metadata = std::move(metadata)](const Step::Results& results) {
    call->SetStep(nullptr);
    if (!results.ok()) return done(busy->ForClient(results.status()));
    StepAnswer answer = {*results, metadata};
    if (trace != nullptr) {
      const absl::StatusOr<std::string> stats = RunMetadataBytes(trace->Take());
      if (!stats.ok()) return done(stats.status());
      answer.metadata += *stats;  // two serialized messages are one that has the fields of both
    }
    done(std::move(answer));
  });
}

std::shared_ptr<const absl::flat_hash_map<std::string, std::string>> MasterSession::ValuesOf(
    const std::vector<std::string>& fetches) const {
  auto values = std::make_shared<absl::flat_hash_map<std::string, std::string>>();
  absl::ReaderMutexLock lock(&graph_mutex_);
  for (const std::string& fetch : fetches) {
    const absl::StatusOr<std::string> name = TensorRef(fetch).Name();
    const absl::StatusOr<Output> value = graph_.graph().FindValue(fetch);
    if (name.ok() && value.ok() && value->name() != *name) values->emplace(*name, value->name());
  }
  return values;
}

absl::StatusOr<MasterSession::PreparedPartialRun> MasterSession::PreparePartialRun(StepNames names,
                                                                                   const ClientCall& call) {
  if (call.is_given_up()) return ClientCall::GivenUp();
  const auto num_bytes = static_cast<int64_t>(2 * KeyOf(names).size());
  WEIR_RETURN_IF_ERROR(Check(&names));
  WEIR_ASSIGN_OR_RETURN(PeerUse::Share room, room_.Take({.plans = 1, .steps = 1, .bytes = num_bytes},
                                                        absl::StrCat("a partial run of session ", handle_)));
  WEIR_ASSIGN_OR_RETURN(const PeerUse::Share compiling, RoomToCompile());
  WEIR_ASSIGN_OR_RETURN(
      std::shared_ptr<PreparedStep> step,
      session_->PreparePartialRun(Refs(names.feeds), Refs(names.fetches),
                                  {names.targets.begin(), names.targets.end()}, call.deadline()));
  return PreparedPartialRun{std::move(step), std::make_shared<PeerUse::Share>(std::move(room)),
                            ValuesOf(names.fetches)};
}

void MasterSession::BeginPartialRun(const PreparedPartialRun& prepared, const ClientCall& call,
                                    const Prepared& done) {
  if (call.is_given_up()) return done(ClientCall::GivenUp());
  // What depends on no feed computes when this ends: the client can end it by then.
  const RunScope scope;
  RunOptions options;
  options.timeout = absl::InfiniteDuration();
  const std::shared_ptr<PartialRun> run = prepared.step->StartPartialRun(options);
  const std::string handle = absl::StrCat(absl::Hex(room_.environment.Random(), absl::kZeroPad16));
  const absl::Status added = partial_runs_.Add(handle, {run, prepared.values}, std::move(*prepared.room));
  if (!added.ok()) return done(ForClient(added));
  run->step().OnDone([weak = weak_from_this(), handle](const Step::Results& results) {
    if (const auto session = weak.lock()) session->partial_runs_.EndStep(handle, results.status());
  });
  done(handle);
}

void MasterSession::StartPartialRun(StepNames names, std::shared_ptr<ClientCall> call, Prepared done) {
  const absl::Status begun = room_.work.Wait([done, busy = BeginUse(), names = std::move(names), call] {
    const absl::StatusOr<PreparedPartialRun> prepared = busy->PreparePartialRun(names, *call);
    if (!prepared.ok()) return done(busy->ForClient(prepared.status()));
    const auto begin = [done, busy, prepared = *prepared, call] {
      busy->BeginPartialRun(prepared, *call, done);
    };
    if (!busy->room_.work.Compute(begin).ok()) begin();
  });
  if (!begun.ok()) done(begun);
}

void MasterSession::RunPart(const std::string& partial_run, StepNames names, std::vector<Tensor> feeds,
                            std::vector<PeerUse::Share> room, const StepWishes& wishes,
                            std::shared_ptr<ClientCall> call, Done done) {
  const absl::StatusOr<RunOptions> options = OptionsOf(wishes, *call);
  if (!options.ok()) return done(options.status());
  const absl::StatusOr<OpenPartialRun> begun = partial_runs_.BeginPart(partial_run);
  if (!begun.ok()) return done(ForClient(begun.status()));
  const std::shared_ptr<PartialRun>& run = begun->run;
  const std::shared_ptr<Step> step(run, &run->step());
  OpenWork::TimerId timer = 0;
  if (options->timeout < absl::InfiniteDuration()) {
    const std::string text =
        absl::StrCat("a part of a partial run, which fetches ", absl::StrJoin(names.fetches, ", "),
                     ", was not over after ", absl::FormatDuration(options->timeout), ": the run is ended");
    timer = room_.work.Later(room_.environment.Now() + options->timeout, [step, text, &work = room_.work] {
      // What closes calls all that was to come later.
      step->Cancel(work.is_closed() ? absl::UnavailableError("the server is shutting down")
                                    : absl::DeadlineExceededError(text));
    });
  }
  call->SetStep(step);
  Feeds fed;
  for (size_t i = 0; i < feeds.size(); ++i) fed.emplace_back(names.feeds[i], std::move(feeds[i]));
  const auto held = std::make_shared<std::vector<PeerUse::Share>>(std::move(room));
  run->Start(fed, begun->FetchesOf(names.fetches),
             [done, busy = BeginUse(), partial_run, timer, call, held](const Step::Results& results) {
               busy->room_.work.Forget(timer);
               call->SetStep(nullptr);
               std::vector<PeerUse::Share> fed_room = std::move(*held);
               if (!results.ok()) fed_room.clear();
               busy->partial_runs_.EndPart(partial_run, std::move(fed_room));
               if (!results.ok()) return done(busy->ForClient(results.status()));
               done(StepAnswer{*results, ""});
             });
}

void MasterSession::MakeCallable(const tensorflow::CallableOptions& options, std::shared_ptr<ClientCall> call,
                                 CallableMade done) {
  if (options.tensor_connection_size() > 0) {
    return done(absl::UnimplementedError(
        "the callable has a tensor_connection, which this server does not know: connect the nodes in the "
        "graph"));
  }
  Callable callable;
  callable.names.feeds.assign(options.feed().begin(), options.feed().end());
  callable.names.fetches.assign(options.fetch().begin(), options.fetch().end());
  callable.names.targets.assign(options.target().begin(), options.target().end());
  callable.wishes = WishesOf(options.run_options());
  absl::StatusOr<PeerUse::Share> room =
      room_.Take({.bytes = 2 * static_cast<int64_t>(options.ByteSizeLong())},
                 absl::StrCat("a callable of session ", handle_));
  if (!room.ok()) return done(room.status());
  callable.room = std::make_shared<PeerUse::Share>(*std::move(room));
  const absl::Status begun = room_.work.Wait([done, busy = BeginUse(), callable = std::move(callable), call] {
    const auto step = busy->Prepare(callable.names, busy->KeyOf(callable.names), *call);
    if (!step.ok()) return done(busy->ForClient(step.status()));
    absl::StatusOr<int64_t> made = 0;
    {
      absl::MutexLock lock(&busy->mutex_);
      if (busy->callables_.size() < kMaxCallables) {
        made = busy->num_callables_++;
        busy->callables_.emplace(*made, callable);
      } else {
        made = absl::ResourceExhaustedError(
            absl::StrCat("the session has ", kMaxCallables, " callables: release some"));
      }
    }
    done(made);
  });
  if (!begun.ok()) done(begun);
}

void MasterSession::RunCallable(int64_t callable, std::vector<Tensor> feeds, std::shared_ptr<ClientCall> call,
                                Done done) {
  std::optional<Callable> found;
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    const auto known = callables_.find(callable);
    if (known != callables_.end()) {
      found = known->second;
    } else if (callable >= 0 && callable < num_callables_) {
      status = absl::InvalidArgumentError(
          absl::StrCat("Attempted to run callable after handle was released: ", callable));
    } else {
      status = absl::InvalidArgumentError(absl::StrCat("No such callable handle: ", callable));
    }
  }
  if (!found) return done(status);
  if (feeds.size() != found->names.feeds.size()) {
    return done(absl::InvalidArgumentError(absl::StrCat(
        "callable ", callable, " takes ", found->names.feeds.size(), " feeds, got ", feeds.size())));
  }
  Run(std::move(found->names), std::move(feeds), found->wishes, std::move(call), std::move(done));
}

void MasterSession::ReleaseCallable(int64_t callable) {
  absl::MutexLock lock(&mutex_);
  callables_.erase(callable);
}

void MasterSession::Close(const absl::Status& reason) {
  PeerUse::Share place;  // given back without the lock
  {
    absl::MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = reason;
    place = std::exchange(place_, PeerUse::Share());
  }
  session_->Close();
  prepared_.Close();
  partial_runs_.Clear();
}

absl::Time MasterSession::last_used() const {
  absl::MutexLock lock(&mutex_);
  return last_used_;
}

}  // namespace weir
