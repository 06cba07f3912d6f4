#include "tests/random_graphs/tensorflow_oracle.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "absl/strings/str_cat.h"
#include "graph/interchange/graph_def.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/record_io.h"
#include "ops/register_ops.h"

extern char** environ;

namespace weir::random_graphs {
namespace {

void AddConst(GraphBuilder& g, const std::string& name, const Tensor& value) {
  g.AddNode("Const", {}, {{"value", value}, {"dtype", value.dtype()}}, name);
}

absl::StatusOr<std::string> PlanOf(const GraphCase& graph_case) {
  GraphBuilder g(StandardOps());
  std::string plan = absl::StrCat("steps ", graph_case.num_steps, "\n");
  if (graph_case.initializer != nullptr)
    absl::StrAppend(&plan, "init ", graph_case.initializer->name(), "\n");
  for (size_t i = 0; i < graph_case.feeds.size(); ++i) {
    absl::StrAppend(&plan, "feed ", graph_case.feeds[i].first.name(), "\n");
    AddConst(g, absl::StrCat("feed", i), graph_case.feeds[i].second);
  }
  for (const Output& fetch : graph_case.fetches) absl::StrAppend(&plan, "fetch ", fetch.name(), "\n");
  for (const Node* target : graph_case.targets) absl::StrAppend(&plan, "target ", target->name(), "\n");
  for (const GradientRequest& gradient : graph_case.gradients) {
    absl::StrAppend(&plan, "gradient ", gradient.y.name(), " ",
                    gradient.grad_y ? gradient.grad_y.name() : "-");
    for (const Output& x : gradient.xs) absl::StrAppend(&plan, " ", x.name());
    absl::StrAppend(&plan, "\n");
  }
  AddConst(g, "plan", Tensor::Scalar(plan));
  WEIR_RETURN_IF_ERROR(g.status());
  return GraphDefBytes(g.graph());
}

absl::Status WriteCases(const std::string& path, absl::Span<const GraphCase* const> cases) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordWriter> writer, RecordWriter::Create(path));
  for (const GraphCase* graph_case : cases) {
    WEIR_ASSIGN_OR_RETURN(const std::string graph, GraphDefBytes(graph_case->graph()));
    WEIR_RETURN_IF_ERROR(writer->Write(graph));
    WEIR_ASSIGN_OR_RETURN(const std::string plan, PlanOf(*graph_case));
    WEIR_RETURN_IF_ERROR(writer->Write(plan));
  }
  return writer->Close();
}

absl::StatusOr<std::vector<TensorFlowResults>> ReadResults(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader, RecordReader::Open(path));
  std::vector<TensorFlowResults> all;
  std::string bytes;
  while (true) {
    WEIR_ASSIGN_OR_RETURN(const bool is_there, reader->ReadNext(&bytes));
    if (!is_there) return all;
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, GraphFromGraphDefBytes(bytes, StandardOps()));
    TensorFlowResults results;
    for (const auto& node : graph->nodes()) results.emplace(node->name(), node->attr<Tensor>("value"));
    all.push_back(std::move(results));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorFlowOracle>> TensorFlowOracle::Start(const std::string& python,
                                                                          const std::string& script,
                                                                          const std::string& folder) {
  int to[2], from[2];
  if (pipe(to) != 0 || pipe(from) != 0) return absl::ErrnoToStatus(errno, "pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  for (int end : {to[0], to[1], from[0], from[1]}) posix_spawn_file_actions_addclose(&actions, end);
  const char* arguments[] = {python.c_str(), script.c_str(), nullptr};
  pid_t process = 0;
  const int error =
      posix_spawn(&process, python.c_str(), &actions, nullptr, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  if (error != 0) {
    close(to[1]);
    close(from[0]);
    return absl::ErrnoToStatus(error, absl::StrCat("starting ", python));
  }
  std::signal(SIGPIPE, SIG_IGN);  // a process that died is an error of Ask
  return std::unique_ptr<TensorFlowOracle>(
      new TensorFlowOracle(folder, process, fdopen(to[1], "w"), fdopen(from[0], "r")));
}

TensorFlowOracle::~TensorFlowOracle() {
  std::fclose(to_);
  std::fclose(from_);
  waitpid(process_, nullptr, 0);
}

absl::StatusOr<std::vector<TensorFlowResults>> TensorFlowOracle::Ask(
    absl::Span<const GraphCase* const> cases) {
  const std::string graphs = absl::StrCat(folder_, "/cases"), results = absl::StrCat(folder_, "/results");
  WEIR_RETURN_IF_ERROR(WriteCases(graphs, cases));
  std::fprintf(to_, "%s %s\n", graphs.c_str(), results.c_str());
  std::fflush(to_);
  char answer[16];
  if (std::fgets(answer, sizeof(answer), from_) == nullptr || std::string(answer) != "done\n")
    return absl::UnavailableError("the Python process with TensorFlow ended");
  WEIR_ASSIGN_OR_RETURN(std::vector<TensorFlowResults> all, ReadResults(results));
  if (all.size() != cases.size()) return absl::InternalError("TensorFlow answered another number of cases");
  return all;
}

}  // namespace weir::random_graphs
