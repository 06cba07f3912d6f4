// The client's view of the runtime: runs parts of a graph on the devices of one process or a cluster.
//
//   auto session = Session::Create(g.graph(), {&worker}, runtime->kernels()).value();
//   std::vector<Tensor> out = session->Run({{x, tensor}}, {y}).value();
//
// A step computes the fetches and runs the targets, with the feeds in place of what they name. Each
// combination of feeds, fetches and targets is compiled at its first use and cached, in whatever order they
// are given; Prepare hands the compiled step out, so that nothing is looked up later. When the cache is full,
// the combination whose last use is longest ago leaves it, and its partitions leave the workers after its
// last running step.
//
// Where the whole graph has its variables and whatever else keeps state, each step has them
// (placer.h: PlaceState), whatever the nodes that it is pruned to ask for.
//
// What nodes keep between steps is the session's: a random node has one stream, whatever steps it is part of.
//
// Sessions on one worker share its containers: a variable of the same name is the same variable, which is how
// a chief and its workers meet. SessionOptions::isolate_session_state gives a session containers of its own.
//
// Borrows the graph and the workers, which must outlive it. Thread safety: all methods. The graph may grow
// while steps run, inside Extend; without it, only while no method of the session runs but those of
// PreparedStep.
//
// Progress: Run and Await wait for the workers, which end a step by its deadline (worker.h); Prepare waits
// for them to compile. Nothing else waits, and no lock is held while anything does.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/interchange/step_stats.h"
#include "graph/rewrite/rewrite_options.h"
#include "kernels/environment.h"
#include "kernels/kernel_registry.h"
#include "placer/placer.h"
#include "session/executor/logical_step.h"
#include "session/feed_type.h"
#include "session/placement_files.h"
#include "session/step_plan.h"
#include "session/worker.h"

namespace weir {

// An output of the session's graph, by itself or by name ("dense/mm:0", "dense/mm").
class TensorRef {
 public:
  TensorRef(Output output) : output_(output) {}
  TensorRef(const char* name) : name_(name) {}
  TensorRef(std::string name) : name_(std::move(name)) {}
  // NotFound with the nearest names; InvalidArgument for a null Output.
  absl::StatusOr<Output> Resolve(const Graph& graph) const;
  // For a fetch: the name of what was a reference to a variable is its value (Graph::FindValue).
  absl::StatusOr<Output> ResolveFetch(const Graph& graph) const;
  // "dense/mm:0", also for "dense/mm". InvalidArgument for a null Output.
  absl::StatusOr<std::string> Name() const;

 private:
  Output output_;
  std::string name_;
};

// A node to run for its effect.
class TargetRef {
 public:
  TargetRef(Node* node) : node_(node) {}
  TargetRef(Output output) : node_(output.node) {}
  TargetRef(const char* name) : name_(name) {}
  TargetRef(std::string name) : name_(std::move(name)) {}
  absl::StatusOr<Node*> Resolve(const Graph& graph) const;

 private:
  Node* node_ = nullptr;
  std::string name_;
};

using Feeds = std::vector<std::pair<TensorRef, Tensor>>;

struct SessionOptions {
  // Where unconstrained nodes go when they can; empty: the first worker's task.
  DeviceName default_task;
  bool allow_soft_placement = true;
  // Print the placement report of every compiled step to stderr.
  bool log_placement = false;
  // Leave that report here, also as pictures (session/placement_files.h); empty: nowhere.
  std::string placement_dir;
  // How long a step may take when RunOptions says nothing. Also bounds compiling.
  absl::Duration operation_timeout = absl::Minutes(10);
  // How long Create may wait for the workers to answer; zero: operation_timeout.
  absl::Duration creation_timeout = absl::ZeroDuration();
  // How many combinations of feeds, fetches and targets stay compiled (each order counts); at least 1.
  int max_cached_signatures = 1024;
  // Variables and other resources of this session's graph are its own, and are dropped when it is closed.
  bool isolate_session_state = false;
  // How the graph of a step may be rewritten before it runs (TensorFlow's GraphOptions.rewrite_options).
  RewriteOptions rewrites;
  // Borrowed; that of the workers of this process.
  Environment* environment = &RealEnvironment();
};

struct RunOptions {
  absl::Duration timeout = absl::ZeroDuration();  // zero: SessionOptions::operation_timeout
  // Whether the step's RunMetadata shall say when each of its nodes ran (TensorFlow's FULL_TRACE). Such a
  // step takes longer, and its kernels do not overlap.
  bool trace = false;
  // Whether the step reads variables to save them, and its RunMetadata shall say what has been applied to
  // them by steps that may be tried again. Not beside `trace`.
  bool notes_applied_updates = false;
  // Set by a MonitoredSession, whose steps may be tried again.
  LogicalStep logical_step;
};

// What became of a step beside its fetches.
struct RunMetadata {
  StepStats step_stats;  // of the devices of this process; empty for a step that was not traced
  // By workers of other processes (RunPartitionCall): for Restore. What this process's has applied is not in
  // it.
  std::string applied_updates;
};

class Folding;            // session/folding.h
class PartialRun;         // session/partial_run.h
struct PartialSignature;  // session/partial_step.h

// A compiled step without look-ups. Valid as long as its session.
class PreparedStep {
 public:
  // feeds and fetches in the order given to Prepare; fetches are set on OK.
  // Errors: InvalidArgument for a feed whose dtype or shape does not fit, naming it and both; those of a
  // step.
  // `metadata` may be null.
  absl::Status Run(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches, const RunOptions& options = {},
                   RunMetadata* metadata = nullptr);

  // The same without waiting: Step's methods say when it has ended. Its errors are the step's. May compute on
  // this thread before it returns. With a `trace`, what the devices of this process did is in it when the
  // step has ended.
  std::shared_ptr<Step> Start(absl::Span<const Tensor> feeds, const RunOptions& options = {},
                              std::shared_ptr<StepTrace> trace = nullptr);

  // Of Session::PreparePartialRun: what Session::StartPartialRun does when it has compiled.
  std::unique_ptr<PartialRun> StartPartialRun(const RunOptions& options = {});

  const PlacementReport& placement_report() const { return plan_->placement_report(); }

 private:
  friend class Session;
  PreparedStep() = default;
  absl::Status CheckFeeds(absl::Span<const Tensor> feeds) const;
  absl::Time Deadline(const RunOptions& options) const;
  absl::Status RunTraced(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches,
                         const RunOptions& options, RunMetadata* metadata);
  absl::Status RunReordered(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches,
                            const RunOptions& options, StepTrace* trace = nullptr,
                            std::string* applied_updates = nullptr);
  std::vector<Tensor> PlanFeeds(absl::Span<const Tensor> feeds) const;

  std::shared_ptr<StepPlan> plan_;
  std::vector<FeedType> feed_types_;
  std::shared_ptr<const PartialSignature> partial_;  // of a step for partial runs
  absl::Duration timeout_;
  // The plan's feed i is the caller's feed_order_[i], the caller's fetch i is the plan's fetch_order_[i].
  bool is_reordered_ = false;
  std::vector<int> feed_order_;
  std::vector<int> fetch_order_;
  int num_plan_fetches_ = 0;
};

class Session {
 public:
  // Asks every worker for its devices. Errors: Unavailable or DeadlineExceeded, naming the task that does not
  // answer.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph, std::vector<Worker*> workers,
                                                         const KernelRegistry& kernels,
                                                         const SessionOptions& options = {});
  ~Session();

  // One step. Returns the fetches in order. `metadata` may be null.
  // Errors: NotFound (unknown feed, fetch or target, with the nearest names), InvalidArgument (a feed that
  // does not fit), those of compiling, the first error of a kernel (with its node and device),
  // DeadlineExceeded, Unavailable.
  absl::StatusOr<std::vector<Tensor>> Run(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                                          const std::vector<TargetRef>& targets = {},
                                          const RunOptions& options = {}, RunMetadata* metadata = nullptr);

  // `deadline`: of compiling; operation_timeout bounds it too.
  absl::StatusOr<std::shared_ptr<PreparedStep>> Prepare(const std::vector<TensorRef>& feeds,
                                                        const std::vector<TensorRef>& fetches,
                                                        const std::vector<TargetRef>& targets = {},
                                                        absl::Time deadline = absl::InfiniteFuture());

  // Starts a step that is fed, and whose fetches are taken, in several calls (partial_run.h). `feeds` and
  // `fetches` are all that may come in any of them; a fetch that stands there twice counts once. The targets
  // run as soon as the feeds that they depend on have come.
  // `deadline`: of compiling, as of Prepare.
  // Errors: InvalidArgument (nothing to fetch or to run; an output that is fed twice, or both fed and
  // fetched), Unimplemented (the session's own task has no CPU, or its worker is not in this process; a
  // resource handle of another task), those of compiling.
  absl::StatusOr<std::unique_ptr<PartialRun>> StartPartialRun(const std::vector<TensorRef>& feeds,
                                                              const std::vector<TensorRef>& fetches,
                                                              const std::vector<TargetRef>& targets = {},
                                                              const RunOptions& options = {},
                                                              absl::Time deadline = absl::InfiniteFuture());
  // The same without starting it: PreparedStep::StartPartialRun does.
  absl::StatusOr<std::shared_ptr<PreparedStep>> PreparePartialRun(
      const std::vector<TensorRef>& feeds, const std::vector<TensorRef>& fetches,
      const std::vector<TargetRef>& targets = {}, absl::Time deadline = absl::InfiniteFuture());

  // Adds to the graph while steps run: calls `add` while no other method reads the graph, and returns its
  // status. What it adds must be complete when it returns; a step sees all of it or nothing.
  absl::Status Extend(absl::FunctionRef<absl::Status()> add);

  // A restore that may take several attempts, perhaps in several sessions.
  struct RestoreProgress {
    uint64_t id = 0;               // of the last attempt that has set variables; they increase
    std::vector<uint64_t> set_on;  // the lives of the workers whose variables it has set; empty: it has not
    // What the values that it has set contain of steps that may be tried again (RunMetadata). Of `set`.
    std::string applied_updates;
  };

  // Calls `set`, which sets variables of its workers to other values than those that training has made: what
  // a step that is tried again has applied before counts as not applied, and nobody trains until all is set
  // (executor/update_ledger.h). After an error it may be called again, with the same progress: what is set is
  // not set again if all workers still live, for some may be training on it already. Errors: those of `set`
  // and of the workers.
  absl::Status Restore(RestoreProgress& progress, absl::FunctionRef<absl::Status()> set);
  // What steps that may be tried again have applied in this process, and what the values contain that were
  // restored here; RestoreProgress may have it. While no step runs.
  std::string AppliedUpdates() const;
  // Whether it was called, or NoteRestored was: variables that this session has found are not what training
  // had made of them.
  bool has_restored() const { return has_restored_; }
  // A session before this one, which was lost before its user knew of it, has restored them.
  void NoteRestored() { has_restored_ = true; }
  // Whether variables may be in other processes.
  bool has_remote_workers() const;
  const DeviceName& default_task() const { return options_.default_task; }

  // Cancels running steps and refuses further ones, also those that are just being compiled.
  void Close();

  // The graphs that a step has on its devices, in the order of their names: what rewriting and placement made
  // of the part of the graph that it runs, with _Send and _Recv between them. Errors and deadline: those of
  // Prepare, for all that is compiled again.
  absl::StatusOr<std::vector<std::unique_ptr<Graph>>> PartitionGraphs(
      const std::vector<TensorRef>& feeds, const std::vector<TensorRef>& fetches,
      const std::vector<TargetRef>& targets, absl::Time deadline = absl::InfiniteFuture());

  // A copy of the whole graph with every node placed, as the steps' parts of it are: for reports and
  // TensorBoard.
  absl::StatusOr<std::unique_ptr<Graph>> PlacedGraph() const;

  const Graph& graph() const { return graph_; }
  Environment& environment() const { return *options_.environment; }
  const std::vector<DeviceName>& devices() const { return devices_; }

 private:
  Session(const Graph& graph, const KernelRegistry& kernels, const SessionOptions& options);
  using Key = std::vector<int64_t>;
  struct CachedStep {
    Key key;
    std::shared_ptr<PreparedStep> step;
  };

  absl::StatusOr<StepSignature> Resolve(const std::vector<TensorRef>& feeds,
                                        const std::vector<TensorRef>& fetches,
                                        const std::vector<TargetRef>& targets) const;
  // `is_partial`: for partial runs; such a step is not given out.
  absl::StatusOr<std::shared_ptr<PreparedStep>> FindOrCompile(const StepSignature& signature, bool is_partial,
                                                              absl::Time deadline);
  absl::StatusOr<std::shared_ptr<StepPlan>> FindOrCompilePlan(const StepSignature& sorted, bool is_partial,
                                                              absl::Time deadline);
  absl::StatusOr<std::shared_ptr<StepPlan>> CompilePlan(const StepSignature& sorted, bool is_partial,
                                                        absl::Time deadline);
  // Without want_report. No constant is folded after the deadline.
  absl::StatusOr<StepPlanOptions> PlanOptions(const StepSignature& signature, bool is_partial,
                                              absl::Time deadline);
  // Compiling with them ends soon after that time, and when the session is closed.
  void EndInTime(StepPlanOptions* options, absl::Time deadline);
  // Cancelled when the session is closed.
  absl::StatusOr<std::shared_ptr<Folding>> StartFolding(absl::Time deadline);
  absl::Status CheckOpen() const;
  // Of all that the graph has now.
  std::shared_ptr<const StatePlaces> PlacesOfState() const;
  absl::StatusOr<StepPlanOptions::LateExchange> LateExchangeOf(const StepSignature& signature) const;
  void UsePrivateContainers(Graph& graph);
  // After the last plan of a closed session is gone.
  void EndOnWorkers();
  bool HasKernel(const Node& node, absl::string_view device_type) const;
  // Whether that kind of device has only a kernel for the node that computes in the host's memory.
  bool ComputesOnHost(const Node& node, absl::string_view device_type) const;
  // Of the whole graph, as it is now.
  UnfitKinds FindUnfit() const;

  const Graph& graph_;
  const KernelRegistry& kernels_;
  SessionOptions options_;
  std::unique_ptr<PlacementFiles> placement_files_;  // null without placement_dir
  const SessionId id_;
  ThreadPool folding_threads_{1};  // constants are folded on the calling thread
  std::vector<StepPlan::WorkerDevices> workers_;
  std::vector<DeviceName> devices_;
  std::atomic<bool> has_restored_{false};

  mutable absl::Mutex graph_mutex_;  // shared: reading the graph; exclusive: adding to it
  int64_t num_forgotten_shapes_ ABSL_GUARDED_BY(graph_mutex_) = 0;  // since it is extended (prune.h)

  mutable absl::Mutex places_mutex_;  // after graph_mutex_
  mutable std::shared_ptr<const StatePlaces> state_places_ ABSL_GUARDED_BY(places_mutex_);
  mutable int num_nodes_placed_ ABSL_GUARDED_BY(places_mutex_) = 0;  // of the graph, when that was made

  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int num_compiling_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_compiled_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<CachedStep> cache_ ABSL_GUARDED_BY(mutex_);  // the one used last first
  absl::flat_hash_map<Key, std::list<CachedStep>::iterator> cached_ ABSL_GUARDED_BY(mutex_);
  // Every plan that somebody still has, by its sorted signature; and some that nobody has.
  absl::flat_hash_map<Key, std::weak_ptr<StepPlan>> plans_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Folding>> foldings_
      ABSL_GUARDED_BY(mutex_);  // of steps being compiled; some are over
  std::set<std::string> private_containers_ ABSL_GUARDED_BY(mutex_);
  // Of the steps that were compiled: a variable stays where one of them has it.
  KindsOfResources kinds_of_resources_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
