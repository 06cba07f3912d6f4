// Trains a model that TensorFlow has written as a MetaGraphDef, as its Python client would with
// tf.train.import_meta_graph and MonitoredTrainingSession.
//
// usage: training_tool META_GRAPH MODEL_DIR LAST_STEP: runs the collection "train_op"; checkpoints every 5
// steps, summaries every 2
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/graph_builder.h"
#include "graph/interchange/meta_graph.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "ops/register_ops.h"
#include "session/local_worker.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"
#include "session/runtime.h"

namespace weir {
namespace {

absl::Status Train(const std::string& meta_graph, const std::string& directory, int64_t last_step) {
  WEIR_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(PosixFileSystem(), meta_graph));
  GraphBuilder g(StandardOps());
  // Nodes that only TensorFlow's own saver needs may be missing here.
  std::vector<SkippedNode> skipped;
  WEIR_RETURN_IF_ERROR(ImportMetaGraph(bytes, {.skipped = &skipped}, &g.graph()).status());
  for (const SkippedNode& node : skipped) std::printf("skipped %s\n", node.name.c_str());
  const auto train_ops = g.graph().collections().find("train_op");
  if (train_ops == g.graph().collections().end() || train_ops->second.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(meta_graph, " has no train_op"));
  }
  const std::string train = train_ops->second[0];

  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, Runtime::Create());
  LocalWorker worker(*runtime, runtime->task());
  WEIR_ASSIGN_OR_RETURN(
      const std::unique_ptr<MonitoredSession> session,
      MonitoredTrainingSession(
          g,
          {.target = {.workers = {&worker}, .default_task = runtime->task(), .kernels = &runtime->kernels()},
           .checkpoint_dir = directory,
           .hooks = {StopAtStepHook({.last_step = last_step})},
           .save_checkpoint_steps = 5,
           .save_summaries_steps = 2}));
  while (!session->should_stop()) WEIR_RETURN_IF_ERROR(session->Run({}, {}, {train}).status());
  return session->Close();
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: training_tool META_GRAPH MODEL_DIR LAST_STEP\n"), 1;
  const absl::Status status = weir::Train(argv[1], argv[2], std::atoll(argv[3]));
  if (!status.ok()) std::fprintf(stderr, "training_tool: %s\n", status.ToString().c_str());
  return weir::ExitCodeFor(status);
}
