// A runtime, a worker and a session over a graph that is still being built: what in-process benchmarks run
// on.
#pragma once

#include <memory>

#include "graph/graph_builder.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"
#include "tests/benchmarks/measure.h"

namespace weir::bench {

class LocalSession {
 public:
  explicit LocalSession(int num_threads = 0, const RewriteOptions& rewrites = {})
      : LocalSession(RuntimeOptions{.num_threads = num_threads}, rewrites) {}
  explicit LocalSession(const RuntimeOptions& options, const RewriteOptions& rewrites = {})
      : runtime(Must(Runtime::Create(options))),
        worker(*runtime, runtime->task()),
        graph(runtime->ops()),
        rewrites_(rewrites) {}

  Session& session() {
    if (!session_) {
      MustOk(graph.status());
      SessionOptions options;
      options.rewrites = rewrites_;
      session_ = Must(Session::Create(graph.graph(), {&worker}, runtime->kernels(), options));
    }
    return *session_;
  }

  const std::unique_ptr<Runtime> runtime;
  LocalWorker worker;
  GraphBuilder graph;

 private:
  const RewriteOptions rewrites_;
  std::unique_ptr<Session> session_;
};

}  // namespace weir::bench
