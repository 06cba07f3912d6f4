// Weir's benchmarks. `weir_bench list` names them; `weir_bench NAME...` runs them.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/raw_tcp.h"

int main(int argc, char** argv) {
  using namespace weir::bench;
  const std::vector<Benchmark> benchmarks = {
      {"executor_null", ExecutorNull},
      {"small_ops", SmallOps},
      {"session_run", SessionRun},
      {"big_graph", BigGraph},
      {"executor_add", ExecutorAdd},
      {"elementwise", Elementwise},
      {"kernels", Kernels},
      {"resnet20_convolutions", ResNet20Convolutions},
      {"mlp_step", MlpStep},
      {"cnn_step", CnnStep},
      {"resnet20_step", ResNet20Step},
      {"wide_deep_step", WideDeepStep},
      {"checkpoint", Checkpoint},
      {"restore", Restore},
      {"tfrecord_read", TfRecordRead},
      {"startup", Startup},
      {"ps_run", PsRun},
      {"ps_dense", PsDense},
      {"ps_mlp", PsMlp},
      {"sync_null", SyncNull},
      {"sync_null_tcp", SyncNullTcp},
      {"all_reduce", AllReduce},
      {"all_reduce_tcp", AllReduceTcp},
  };
  const std::vector<std::string> names(argv + 1, argv + argc);
  if (names.size() == 4 && names[0] == "serve") return Serve(names[1], names[2], std::atoi(names[3].c_str()));
  if (names.size() == 3 && names[0] == "sync_worker")
    return SyncWorker(names[1], std::atoi(names[2].c_str()));
  if (names.size() == 4 && names[0] == "replica") {
    return Replica(names[1], std::atoi(names[2].c_str()), std::atoi(names[3].c_str()));
  }
  if (names.size() == 4 && names[0] == "raw_peer") {
    return RawPeer(std::atoi(names[1].c_str()),
                   {.num_bytes = std::atoll(names[2].c_str()), .is_in_turn = names[3] == "in_turn"});
  }
  if (names == std::vector<std::string>{"first_step"}) return FirstStep(), 0;
  if (names.empty() || names[0] == "--help" || names[0] == "list") {
    if (names.empty() || names[0] == "--help") std::printf("usage: weir_bench NAME... | all | list\n");
    for (const Benchmark& benchmark : benchmarks) std::printf("%s\n", benchmark.name.c_str());
    return 0;
  }
  for (const std::string& name : names) {
    bool found = false;
    for (const Benchmark& benchmark : benchmarks) {
      if (name != "all" && name != benchmark.name) continue;
      found = true;
      benchmark.run();
    }
    if (!found) {
      std::fprintf(stderr, "weir_bench: no benchmark is named '%s' (weir_bench list)\n", name.c_str());
      return 1;
    }
  }
  return 0;
}
