// Runs cases on Weir, in all the ways that must not matter: threads, devices, tasks, rewrites, order of
// nodes.
//
// Owns the runtimes, and a cluster of three tasks in this process. One thread at a time. Every run begins
// with empty containers and the case's initializer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "distributed/server.h"
#include "distributed/transport/transport.h"
#include "kernels/cuda/cuda_backend.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"
#include "tests/random_graphs/graph_case.h"
#include "tests/random_graphs/random.h"

namespace weir::random_graphs {

enum class Way {
  kPlain,  // two threads, one device
  kOneThread,
  kEightThreads,
  kOneFetch,       // of the fetches one, by chance
  kOtherOrder,     // nodes are added in another order
  kDevices,        // two CPUs and two fake GPUs, nodes go anywhere
  kTasks,          // a ps and two workers
  kNothingFolded,  // constants are fed
  kNotRewritten,   // the graph runs as it was built
  kSerialized,     // written as GraphDef and read again
  kCancelled,      // after a run that is given up
  kTwoAtOnce,      // two threads run the step at the same time (only graphs without variables)
  kGpus,           // a CPU and a CUDA device, nodes go anywhere; none of kAllWays, as it wants one
};
inline constexpr Way kAllWays[] = {Way::kPlain,      Way::kOneThread,     Way::kEightThreads,
                                   Way::kOneFetch,   Way::kOtherOrder,    Way::kDevices,
                                   Way::kTasks,      Way::kNothingFolded, Way::kNotRewritten,
                                   Way::kSerialized, Way::kCancelled,     Way::kTwoAtOnce};
const char* WayName(Way way);

// The fetches of each step; an invalid tensor where the way fetches less.
using Results = std::vector<std::vector<Tensor>>;

class Runner {
 public:
  // `gpus`: what the device of kGpus is made of; null where nothing runs that way. Borrowed.
  explicit Runner(const CudaBackend* gpus = nullptr);
  ~Runner();

  // The error of a step, or Internal when a step changed what it must not: a feed, a result of an earlier
  // step.
  absl::StatusOr<Results> Run(const GraphCase& graph_case, Way way, Random& random);

 private:
  struct Process {
    std::unique_ptr<Runtime> runtime;
    std::unique_ptr<LocalWorker> worker;
  };
  static Process Start(const RuntimeOptions& options);

  absl::StatusOr<Results> RunIn(const Process& process, const GraphCase& graph_case);
  absl::StatusOr<Results> RunOneFetch(const GraphCase& graph_case, Random& random);
  absl::StatusOr<Results> RunInOtherOrder(const GraphCase& graph_case, Random& random);
  absl::StatusOr<Results> RunOnDevices(const GraphCase& graph_case, Random& random);
  absl::StatusOr<Results> RunOnGpus(const GraphCase& graph_case, Random& random);
  absl::StatusOr<Results> RunOnTasks(const GraphCase& graph_case, Random& random);
  absl::StatusOr<Results> RunSerialized(const GraphCase& graph_case);
  absl::StatusOr<Results> RunAfterCancelling(const GraphCase& graph_case, Random& random);
  absl::StatusOr<Results> RunTwoAtOnce(const GraphCase& graph_case);
  absl::StatusOr<Results> RunSession(const GraphCase& graph_case, const std::vector<Worker*>& workers,
                                     const KernelRegistry& kernels, SessionOptions options = {});

  Process plain_, one_thread_, eight_threads_, devices_, gpus_;
  std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<Server>> servers_;
};

}  // namespace weir::random_graphs
