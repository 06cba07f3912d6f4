#include "distributed/master/master_session.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/master/step_error.h"
#include "graph/interchange/proto/config.pb.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/step_stats.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// How long compiling may take. A step of TensorFlow's has no limit of its own.
constexpr absl::Duration kCompileTimeout = absl::Minutes(10);
// Between two looks whether somebody still waits for a session.
constexpr absl::Duration kCreateAttempt = absl::Seconds(5);

std::string KeyOf(const StepNames& names) {
  std::string key;
  for (const std::vector<std::string>* list : {&names.feeds, &names.fetches, &names.targets}) {
    absl::StrAppend(&key, list->size(), "\n", absl::StrJoin(*list, "\n"), "\n");
  }
  return key;
}

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
  options.isolate_session_state = config.isolate_session_state();
  options.environment = target.environment;
  const auto level = config.graph_options().optimizer_options().opt_level();
  options.rewrites.is_enabled = level != tensorflow::OptimizerOptions::L0;
  return options;
}

}  // namespace

absl::StatusOr<PeerUse::Share> MasterRoom::Take(const PeerUse::Amount& amount, absl::string_view what) const {
  static constexpr Incarnation kAll = 0;
  return use.Take({"clients", 0}, kAll, amount, what);
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

absl::StatusOr<std::shared_ptr<MasterSession>> MasterSession::Create(
    const MasterRoom& room, std::string handle, const tensorflow::GraphDef& graph_def,
    const tensorflow::ConfigProto& config, const SessionTarget& target, const ClientCall& call) {
  std::shared_ptr<MasterSession> session(new MasterSession(room, std::move(handle)));
  WEIR_RETURN_IF_ERROR(session->Start(graph_def, config, target, call));
  return session;
}

absl::Status MasterSession::AdmitGraph(int64_t num_bytes) {
  graph_mutex_.AssertHeld();
  WEIR_ASSIGN_OR_RETURN(PeerUse::Share share,
                        room_.Take({.bytes = num_bytes}, absl::StrCat("the graph of session ", handle_)));
  shares_.push_back(std::move(share));
  return absl::OkStatus();
}

absl::Status MasterSession::Start(const tensorflow::GraphDef& graph_def,
                                  const tensorflow::ConfigProto& config, const SessionTarget& target,
                                  const ClientCall& call) {
  if (config.cluster_def().job_size() > 0) {
    return absl::UnimplementedError(
        "the session's config has a cluster_def: the cluster is that of the server (weir serve "
        "--cluster_spec), and a session cannot bring its own; leave cluster_def out");
  }
  if (config.operation_timeout_in_ms() > 0) {
    operation_timeout_ = absl::Milliseconds(config.operation_timeout_in_ms());
  }
  own_task_ = target.default_task;
  WEIR_ASSIGN_OR_RETURN(workers_, Filter(target, config));
  const Graph* graph = nullptr;
  {
    absl::MutexLock lock(&graph_mutex_);
    WEIR_ASSIGN_OR_RETURN(PeerUse::Share share, room_.Take({.sessions = 1}, "a session"));
    shares_.push_back(std::move(share));
    WEIR_RETURN_IF_ERROR(graph_.Add(graph_def));
    graph = &graph_.graph();
  }
  SessionOptions options = OptionsOfConfig(config, target);
  for (;;) {
    const absl::Time now = room_.environment.Now();
    options.creation_timeout = std::min(kCreateAttempt, call.deadline() - now);
    absl::StatusOr<std::unique_ptr<Session>> session =
        options.creation_timeout > absl::ZeroDuration()
            ? Session::Create(*graph, workers_, *target.kernels, options)
            : absl::DeadlineExceededError("the call has run out of time before the session's tasks were up");
    if (session.ok()) {
      session_ = *std::move(session);
      return absl::OkStatus();
    }
    // A task that is not up yet is waited for, as long as somebody waits for the session.
    const bool may_come = absl::IsUnavailable(session.status()) || absl::IsDeadlineExceeded(session.status());
    if (!may_come || call.is_given_up() || room_.work.is_closed() ||
        room_.environment.Now() >= call.deadline()) {
      return session.status();
    }
  }
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
    return graph_.Add(graph_def);
  }));
  return ++graph_version_;
}

std::shared_ptr<PreparedStep> MasterSession::FindPrepared(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  const auto known = prepared_.find(key);
  return known == prepared_.end() ? nullptr : known->second.lock();
}

absl::StatusOr<std::shared_ptr<PreparedStep>> MasterSession::Prepare(StepNames names,
                                                                     const std::string& key) {
  {
    absl::ReaderMutexLock lock(&graph_mutex_);
    WEIR_RETURN_IF_ERROR(graph_.Check(&names));
  }
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<PreparedStep> step,
                        session_->Prepare(Refs(names.feeds), Refs(names.fetches),
                                          {names.targets.begin(), names.targets.end()}));
  absl::MutexLock lock(&mutex_);
  if (prepared_.size() >= prepared_limit_) {
    absl::erase_if(prepared_, [](const auto& entry) { return entry.second.expired(); });
    prepared_limit_ = 2 * prepared_.size() + 1024;
  }
  prepared_[key] = step;
  return step;
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
  const std::shared_ptr<PreparedStep> known = FindPrepared(key);
  if (known != nullptr && !wishes.trace) return RunPrepared(*known, feeds, wishes, *call, std::move(done));
  const size_t num_fetches = names.fetches.size();
  const absl::Status begun = room_.work.Wait([done, busy, names = std::move(names), key = std::move(key),
                                              feeds = std::move(feeds), wishes, num_fetches, call] {
    const absl::StatusOr<std::shared_ptr<PreparedStep>> step = busy->Prepare(names, key);
    if (!step.ok()) return done(busy->ForClient(step.status()));
    if (wishes.trace) return busy->RunTraced(**step, feeds, num_fetches, wishes, *call, done);
    busy->RunPrepared(**step, feeds, wishes, *call, done);
  });
  if (!begun.ok()) done(begun);
}

void MasterSession::RunPrepared(PreparedStep& step, const std::vector<Tensor>& feeds,
                                const StepWishes& wishes, ClientCall& call, Done done) {
  const absl::StatusOr<RunOptions> options = OptionsOf(wishes, call);
  if (!options.ok()) return done(options.status());
  const std::shared_ptr<Step> running = step.Start(feeds, *options);
  call.SetStep(running);
  running->OnDone([done = std::move(done), busy = BeginUse()](const Step::Results& results) {
    if (!results.ok()) return done(busy->ForClient(results.status()));
    done(StepAnswer{*results, ""});
  });
}

void MasterSession::RunTraced(PreparedStep& step, const std::vector<Tensor>& feeds, size_t num_fetches,
                              const StepWishes& wishes, const ClientCall& call, const Done& done) {
  absl::StatusOr<RunOptions> options = OptionsOf(wishes, call);
  if (!options.ok()) return done(options.status());
  options->trace = true;
  StepAnswer answer;
  answer.tensors.resize(num_fetches);
  RunMetadata metadata;
  const absl::Status ran = step.Run(feeds, absl::MakeSpan(answer.tensors), *options, &metadata);
  if (!ran.ok()) return done(ForClient(ran));
  absl::StatusOr<std::string> bytes = RunMetadataBytes(metadata.step_stats);
  if (!bytes.ok()) return done(bytes.status());
  answer.metadata = *std::move(bytes);
  done(std::move(answer));
}

absl::StatusOr<std::string> MasterSession::BeginPartialRun(StepNames names) {
  {
    absl::ReaderMutexLock lock(&graph_mutex_);
    WEIR_RETURN_IF_ERROR(graph_.Check(&names));
  }
  {
    absl::MutexLock lock(&mutex_);
    if (partial_runs_.size() >= kMaxPartialRuns) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the session has ", kMaxPartialRuns, " partial runs that are not over"));
    }
  }
  RunOptions options;
  options.timeout = absl::InfiniteDuration();
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<PartialRun> run,
                        session_->StartPartialRun(Refs(names.feeds), Refs(names.fetches),
                                                  {names.targets.begin(), names.targets.end()}, options));
  const std::string handle = absl::StrCat(absl::Hex(room_.environment.Random(), absl::kZeroPad16));
  {
    absl::MutexLock lock(&mutex_);
    partial_runs_.emplace(handle, run);
  }
  run->step().OnDone([weak = weak_from_this(), handle](const Step::Results&) {
    if (const auto session = weak.lock()) session->ForgetPartialRun(handle);
  });
  return handle;
}

void MasterSession::ForgetPartialRun(const std::string& handle) {
  std::shared_ptr<PartialRun> over;  // dropped after the lock
  absl::MutexLock lock(&mutex_);
  const auto known = partial_runs_.find(handle);
  if (known == partial_runs_.end()) return;
  over = std::move(known->second);
  partial_runs_.erase(known);
}

void MasterSession::StartPartialRun(StepNames names, Prepared done) {
  const absl::Status begun = room_.work.Wait([done, busy = BeginUse(), names = std::move(names)] {
    absl::StatusOr<std::string> handle = busy->BeginPartialRun(names);
    done(handle.ok() ? handle : busy->ForClient(handle.status()));
  });
  if (!begun.ok()) done(begun);
}

void MasterSession::RunPart(const std::string& partial_run, StepNames names, std::vector<Tensor> feeds,
                            Done done) {
  std::shared_ptr<PartialRun> run;
  {
    absl::MutexLock lock(&mutex_);
    const auto known = partial_runs_.find(partial_run);
    if (known != partial_runs_.end()) run = known->second;
  }
  if (run == nullptr) {
    return done(absl::InvalidArgumentError("Must run PartialRunSetup before performing partial runs"));
  }
  // The run knows a reference to a variable by the node that reads it.
  {
    absl::ReaderMutexLock lock(&graph_mutex_);
    for (std::string& fetch : names.fetches) {
      if (const absl::StatusOr<Output> value = graph_.graph().FindValue(fetch); value.ok())
        fetch = value->name();
    }
  }
  Feeds fed;
  for (size_t i = 0; i < feeds.size(); ++i) fed.emplace_back(names.feeds[i], std::move(feeds[i]));
  run->Start(fed, Refs(names.fetches), [done, busy = BeginUse(), run](const Step::Results& results) {
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
  const absl::Status begun = room_.work.Wait([done, busy = BeginUse(), callable = std::move(callable)] {
    const auto step = busy->Prepare(callable.names, KeyOf(callable.names));
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
  {
    absl::MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = reason;
  }
  session_->Close();
  absl::flat_hash_map<std::string, std::shared_ptr<PartialRun>> partial_runs;
  absl::MutexLock lock(&mutex_);
  partial_runs.swap(partial_runs_);
}

absl::Time MasterSession::last_used() const {
  absl::MutexLock lock(&mutex_);
  return last_used_;
}

}  // namespace weir
