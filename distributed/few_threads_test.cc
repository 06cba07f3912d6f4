// A server in a process that gets only so many threads, as with a limit of a container: here the system's
// pthread_create gives no more.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "distributed/launch/free_ports.h"
#include "distributed/launch/test_processes.h"
#include "distributed/server.h"
#include "distributed/server_options.h"
#include "distributed/task_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {
std::atomic<int> threads_left{1 << 30};
}  // namespace

// Instead of the C library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  using Function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto of_system = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_create"));
  return --threads_left >= 0 ? of_system(thread, attributes, run, argument) : EAGAIN;
}

namespace weir {
namespace {

constexpr int kRefused = 7;

// As a program does that ends with the error of its server.
int Serve(int num_threads, const std::string& output, int port) {
  const int out = open(output.c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(out, STDERR_FILENO);
  threads_left = num_threads;
  ClusterSpec cluster;
  EXPECT_TRUE(cluster.AddTask({"worker", 0}, absl::StrCat("127.0.0.1:", port)).ok());
  EXPECT_TRUE(cluster.AddTask({"worker", 1}, absl::StrCat("127.0.0.1:", port + 1)).ok());
  ServerOptions options;
  options.num_threads = 1;
  const auto server = Server::Start(TaskConfig::Create(cluster, {"worker", 0}).value(), options);
  std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
  return server.ok() ? 0 : kRefused;
}

TEST(FewThreadsTest, AServerThatGetsTooFewIsRefusedAndEnds) {
  const std::string output = MakeTestDir("few_threads_") + "/output";
  const ReservedPorts ports = ReservedPorts::Take(2).value();
  for (int num_threads = 2; num_threads <= 22; num_threads += 4) {
    TestProcess process = TestProcess::Fork([&] { return Serve(num_threads, output, ports[0]); });
    EXPECT_EQ(process.AwaitExit(absl::Seconds(30)), kRefused) << num_threads << ": " << ReadFile(output);
  }
  EXPECT_THAT(ReadFile(output), testing::HasSubstr("threads to serve with"));
}

}  // namespace
}  // namespace weir
