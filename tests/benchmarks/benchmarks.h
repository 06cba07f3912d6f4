// All benchmarks, by the names that weir_bench takes.
#pragma once

#include <string>
#include <vector>

namespace weir::bench {

struct Benchmark {
  std::string name;
  void (*run)();
};

// runtime_benchmarks.cc
void ExecutorNull();
void SmallOps();
void SessionRun();
void BigGraph();
// executor_benchmarks.cc
void ExecutorAdd();
// elementwise_benchmarks.cc
void Elementwise();
// kernel_benchmarks.cc
void Kernels();
// convolution_benchmarks.cc
void ResNet20Convolutions();
// model_benchmarks.cc
void MlpStep();
void CnnStep();
void ResNet20Step();
void WideDeepStep();
void FirstStep();  // run by startup in a fresh process
void Startup();
// file_benchmarks.cc
void Checkpoint();
void Restore();
void TfRecordRead();
// ps_benchmarks.cc
void PsRun();
void PsDense();
void PsMlp();
// sync_benchmarks.cc
void SyncNull();
void SyncNullTcp();
// One worker of its cluster.
int SyncWorker(const std::string& cluster, int index);
// One task of a benchmark's cluster; returns when its standard input closes.
int Serve(const std::string& cluster, const std::string& job, int task);

// collective_benchmarks.cc
void AllReduce();
void AllReduceTcp();
// One rank of a benchmark's group.
int Replica(const std::string& cluster, int rank, int num_ranks);

}  // namespace weir::bench
