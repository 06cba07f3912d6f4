// Replicas in processes of this machine; rank 0 is this process.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "distributed/launch/free_ports.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/raw_tcp.h"

namespace weir::bench {
namespace {

struct Size {
  int64_t num_bytes;
  int num_calls;  // fixed, so that the ranks keep in step
};
constexpr Size kSizes[] = {{4096, 400}, {1 << 20, 200}, {1 << 22, 60}, {1 << 27, 5}};
constexpr int kRounds = 5;

Tensor AllReduce(Communicator& ranks, int64_t key, Tensor input) {
  absl::Mutex mutex;
  std::optional<absl::StatusOr<Tensor>> told;
  ranks.AllReduce({"bench", {0, key}}, std::move(input), Reduction::kSum, false,
                  [&](absl::StatusOr<Tensor> result) {
                    absl::MutexLock lock(&mutex);
                    told = std::move(result);
                  });
  absl::MutexLock lock(&mutex);
  mutex.Await(absl::Condition(
      +[](std::optional<absl::StatusOr<Tensor>>* told) { return told->has_value(); }, &told));
  return Must(*std::move(told));
}

// Every rank does the same; rank 0 tells what it has measured.
void Measure(Server& server, int num_ranks) {
  MustOk(server.replicas()->Form(absl::Now() + absl::Minutes(1)));
  Communicator& ranks = *server.replicas()->ranks();
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    const auto [num_bytes, num_calls] = kSizes[i];
    const bool is_test = TimeScale() == 0;
    Tensor input(DType::kFloat32, Shape({num_bytes / 4}));
    std::fill(input.flat<float>().begin(), input.flat<float>().end(), 1.0f);
    std::vector<double> seconds;
    for (int round = 0; round < (is_test ? 1 : kRounds); ++round) {
      AllReduce(ranks, -1, Tensor::Scalar(1.0f));  // a barrier
      const absl::Time begin = absl::Now();
      const int calls = is_test ? 1 : num_calls;
      for (int call = 0; call < calls; ++call) {
        const Tensor sum = AllReduce(ranks, static_cast<int64_t>(i), input);
        if (sum.flat<float>()[num_bytes / 8] != num_ranks) Fail("an all-reduce is wrong");
      }
      seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin) / calls);
    }
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
    const double median = seconds[seconds.size() / 2];
    if (ranks.rank() != 0) continue;
    const std::string metric =
        absl::StrCat("all_reduce_w", num_ranks, "_", num_bytes, IsOverTcp() ? "_tcp" : "");
    // What goes over the network in an all-reduce of two ranks: as much as the tensor has, each way.
    std::map<std::string, double> detail;
    if (IsOverTcp() && num_ranks == 2) {
      const double raw =
          RawExchangeSeconds({.num_bytes = num_bytes}, is_test ? 1 : num_calls, is_test ? 1 : 3);
      detail["raw_tcp_us"] = raw * 1e6;
      detail["of_raw"] = raw / median;  // of its speed
    }
    if (num_bytes <= 65536) {
      Emit(metric, median * 1e6, "us", detail);
    } else {
      Emit(metric, static_cast<double>(num_bytes) / 1e9 / median, "GB/s", detail);
    }
  }
}

TaskConfig RankOf(const std::string& cluster, int rank) {
  return Must(TaskConfig::FromTfConfig(absl::StrFormat(
      "{\"cluster\": {\"worker\": [%s]}, \"task\": {\"type\": \"worker\", \"index\": %d}}", cluster, rank)));
}

}  // namespace

int Replica(const std::string& cluster, int rank, int num_ranks) {
  const std::unique_ptr<Server> server =
      Must(Server::Start(RankOf(cluster, rank), {.uses_host_sockets = !IsOverTcp()}));
  Measure(*server, num_ranks);
  server->Shutdown();
  return 0;
}

namespace {

void AllReduceOf(const std::vector<int>& numbers_of_ranks) {
  for (const int num_ranks : numbers_of_ranks) {
    std::vector<std::string> addresses;
    for (const int port : Must(FindFreePorts(num_ranks))) {
      // Ranks of different hosts share no memory.
      const int host = IsOverTcp() ? static_cast<int>(addresses.size()) + 1 : 1;
      addresses.push_back(absl::StrFormat("\"127.0.0.%d:%d\"", host, port));
    }
    const std::string cluster = absl::StrJoin(addresses, ", ");
    std::vector<pid_t> others;
    for (int rank = 1; rank < num_ranks; ++rank) {
      const std::string number = absl::StrCat(rank), all = absl::StrCat(num_ranks);
      others.push_back(::fork());
      if (others.back() < 0) Fail("cannot start a rank");
      if (others.back() == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::execl("/proc/self/exe", "weir_bench", "replica", cluster.c_str(), number.c_str(), all.c_str(),
                nullptr);
        ::_exit(127);
      }
    }
    Replica(cluster, 0, num_ranks);
    for (const pid_t other : others) ::waitpid(other, nullptr, 0);
  }
}

}  // namespace

void AllReduce() { AllReduceOf({2, 4}); }

void AllReduceTcp() {
  const OverTcp over_tcp;
  AllReduceOf({2});
}

}  // namespace weir::bench
