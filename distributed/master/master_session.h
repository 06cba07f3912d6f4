// One session of a client: its graph, a Session on it, and what the client has prepared.
//
// Steps start on the calling thread when they are compiled already, otherwise where waiting is allowed
// (open_work.h), and `done` is called when they have ended. Their errors are TensorFlow's (step_error.h).
//
// Shared: a step keeps it until it has ended. Thread safety: all methods. Progress: no method waits for a
// step. Close waits for other tasks; Create and Extend compute, and Extend waits until nobody reads the
// graph.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/master/client_call.h"
#include "distributed/master/client_graph.h"
#include "distributed/master/open_partial_runs.h"
#include "distributed/master/open_work.h"
#include "distributed/master/prepared_steps.h"
#include "distributed/master/step_messages.h"
#include "distributed/peer_limits.h"
#include "session/partial_run.h"
#include "session/session.h"
#include "session/session_target.h"

namespace tensorflow {
class CallableOptions;
class ConfigProto;
class GraphDef;
}  // namespace tensorflow

namespace weir {

// What all sessions of a master share; borrowed.
struct MasterRoom {
  const OpRegistry& ops;
  Environment& environment;
  OpenWork& work;
  PeerUse& use;
  std::string host;  // where the server runs, for errors
  // Whether the worker's task has said that it is done. Null: never.
  std::function<bool(const Worker& worker)> is_done;
  // Gives back something that is only kept in case somebody asks for it; false when there is nothing left.
  std::function<bool()> make_room;

  // Without the tasks that have said that they are done: nobody waits for them.
  std::vector<Worker*> WithoutThoseDone(std::vector<Worker*> workers) const;

  // Takes of what all clients may have together (peer_limits.h). Where bytes are missing, room is made first.
  absl::StatusOr<PeerUse::Share> Take(const PeerUse::Amount& amount, absl::string_view what) const;
};

// What a step gives its client.
struct StepAnswer {
  std::vector<Tensor> tensors;  // of the fetches
  std::string metadata;         // a serialized RunMetadata; empty: none was asked for
};

class MasterSession : public std::enable_shared_from_this<MasterSession> {
 public:
  using Done = std::function<void(const absl::StatusOr<StepAnswer>&)>;

  static constexpr size_t kMaxCallables = 10'000;

  // Adds the graph on the calling thread, then asks the tasks that the session runs on, again and again where
  // one is not up yet, as long as the call is not given up; after 10 s, and then each minute, a line on
  // stderr says who is waited for. `done` is called once, where waiting is allowed. `target` is borrowed
  // until then. Errors: InvalidArgument (the graph; a device filter that does not parse; thread pools),
  // Unimplemented (a config that brings its own cluster), ResourceExhausted (too much for the clients of this
  // task), those of Session::Create.
  using Created = std::function<void(absl::StatusOr<std::shared_ptr<MasterSession>>)>;
  static void Create(const MasterRoom& room, std::string handle, const tensorflow::GraphDef& graph_def,
                     const tensorflow::ConfigProto& config, const SessionTarget& target,
                     std::shared_ptr<ClientCall> call, Created done);
  ~MasterSession();

  const std::string& handle() const { return handle_; }

  // The number of the graph's version after it. Aborted when `version` is not the current one.
  absl::StatusOr<int64_t> Extend(const tensorflow::GraphDef& graph_def, int64_t version);

  void Run(StepNames names, std::vector<Tensor> feeds, const StepWishes& wishes,
           std::shared_ptr<ClientCall> call, Done done);

  // `done` gets the handle.
  using Prepared = std::function<void(absl::StatusOr<std::string>)>;
  void StartPartialRun(StepNames names, std::shared_ptr<ClientCall> call, Prepared done);
  // A part that is not over in time, or whose client goes away, ends the whole run. `room`: what the feeds
  // take, which the run keeps unless it refuses the part.
  void RunPart(const std::string& partial_run, StepNames names, std::vector<Tensor> feeds,
               std::vector<PeerUse::Share> room, const StepWishes& wishes, std::shared_ptr<ClientCall> call,
               Done done);

  using CallableMade = std::function<void(absl::StatusOr<int64_t>)>;
  void MakeCallable(const tensorflow::CallableOptions& options, std::shared_ptr<ClientCall> call,
                    CallableMade done);
  void RunCallable(int64_t callable, std::vector<Tensor> feeds, std::shared_ptr<ClientCall> call, Done done);
  void ReleaseCallable(int64_t callable);

  const std::vector<Worker*>& workers() const { return workers_; }

  // Ends running steps, refuses others; their clients are told `reason`. The first reason counts.
  void Close(const absl::Status& reason);

  // When a client last asked for something, and whether something is under way. For those that are abandoned.
  absl::Time last_used() const;
  bool is_busy() const { return num_busy_ > 0; }

 private:
  struct Callable {
    StepNames names;
    StepWishes wishes;
    std::shared_ptr<PeerUse::Share> room;
  };
  struct Creation;  // a session that waits for its tasks
  class Busy;       // while it lives, the session is in use

  MasterSession(const MasterRoom& room, std::string handle);
  // What needs no other task.
  absl::Status Begin(const tensorflow::GraphDef& graph_def, const tensorflow::ConfigProto& config,
                     const SessionTarget& target);
  static void TryToStart(const std::shared_ptr<Creation>& creation);
  // `started`: OK, or why it is given up.
  static void End(Creation& creation, const absl::Status& started);
  // A line on stderr, if it still waits.
  static void NoticeAt(absl::Time when, const std::weak_ptr<Creation>& waiting, OpenWork& work);
  // Possible errors: those of Session::Create; a later attempt may help if Unavailable or DeadlineExceeded.
  absl::Status Start(Creation& creation);
  absl::Status AdmitGraph(int64_t num_bytes);
  absl::Status AddToGraph(const tensorflow::GraphDef& graph_def) ABSL_EXCLUSIVE_LOCKS_REQUIRED(graph_mutex_);

  // Of the compiled step for these names.
  std::string KeyOf(const StepNames& names) const;
  absl::Status Check(StepNames* names) const;
  absl::StatusOr<std::shared_ptr<PreparedStep>> Prepare(StepNames names, const std::string& key,
                                                        const ClientCall& call);
  // Held while a step is compiled. As if it had all nodes of the graph: how many it has the first pass says.
  absl::StatusOr<PeerUse::Share> RoomToCompile() const;
  // A serialized RunMetadata with the graphs of the step's devices.
  absl::StatusOr<std::string> PartitionGraphs(StepNames names, const ClientCall& call);
  // `metadata`: the beginning of the answer's.
  void RunPrepared(PreparedStep& step, const std::vector<Tensor>& feeds, const StepWishes& wishes,
                   const std::shared_ptr<ClientCall>& call, std::string metadata, Done done);
  // OpenPartialRun::values of a run with these fetches.
  std::shared_ptr<const absl::flat_hash_map<std::string, std::string>> ValuesOf(
      const std::vector<std::string>& fetches) const;
  struct PreparedPartialRun {
    std::shared_ptr<PreparedStep> step;
    std::shared_ptr<PeerUse::Share> room;
    std::shared_ptr<const absl::flat_hash_map<std::string, std::string>> values;  // OpenPartialRun::values
  };
  absl::StatusOr<PreparedPartialRun> PreparePartialRun(StepNames names, const ClientCall& call);
  // Calls `done` with the handle, then computes.
  void BeginPartialRun(const PreparedPartialRun& prepared, const ClientCall& call, const Prepared& done);
  absl::StatusOr<RunOptions> OptionsOf(const StepWishes& wishes, const ClientCall& call) const;
  absl::Status ForClient(const absl::Status& error) const;
  Busy BeginUse();

  const MasterRoom room_;
  const std::string handle_;
  DeviceName own_task_;
  std::vector<Worker*> workers_;
  absl::Duration operation_timeout_ = absl::InfiniteDuration();  // of steps
  std::atomic<int> num_busy_{0};

  mutable absl::Mutex graph_mutex_;  // shared: reading the graph; exclusive: adding to it
  ClientGraph graph_ ABSL_GUARDED_BY(graph_mutex_);
  std::atomic<int64_t> num_forgotten_shapes_ = 0;  // graph/rewrite/prune.h
  int64_t graph_version_ ABSL_GUARDED_BY(graph_mutex_) = 0;
  std::vector<PeerUse::Share> shares_ ABSL_GUARDED_BY(graph_mutex_);
  std::vector<PeerUse::Share> admitted_ ABSL_GUARDED_BY(graph_mutex_);  // by an addition that is not over
  std::unique_ptr<Session> session_;                                    // after its graph

  mutable absl::Mutex mutex_;
  absl::Time last_used_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);  // the reason
  // Among the sessions of all clients. A step that ends may hold the session a little longer than that.
  PeerUse::Share place_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int64_t, Callable> callables_ ABSL_GUARDED_BY(mutex_);
  int64_t num_callables_ ABSL_GUARDED_BY(mutex_) = 0;  // ever made
  PreparedSteps prepared_;
  OpenPartialRuns partial_runs_;
};

}  // namespace weir
