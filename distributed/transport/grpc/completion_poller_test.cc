#include "distributed/transport/grpc/completion_poller.h"

#include <grpc/grpc.h>
#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <chrono>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distributed/timing/listening_threads.h"
#include "gtest/gtest.h"
#include "kernels/no_more_threads.h"

namespace weir {
namespace {

struct CountedEvent final : CompletionEvent {
  void OnCompletion(bool) override { ++count; }
  int count = 0;
};

// The queue of a server that was built before may have events already: gRPC aborts when one of them is left.
TEST(CompletionPollerTest, WithoutAThreadTheQueueIsEmptiedAtTheEnd) {
  grpc_init();  // held until the process ends, as by a transport: its end waits for threads that it did not
                // get
  CountedEvent event;
  grpc::CompletionQueue queue;
  grpc::Alarm alarm;
  alarm.Set(&queue, std::chrono::system_clock::now(), &event);
  {
    const NoMoreThreads none;
    const CompletionPoller poller(&queue, ListeningThreads::Options{.num_threads = 2, .max_threads = 2},
                                  absl::ZeroDuration());
    EXPECT_TRUE(absl::IsResourceExhausted(poller.status())) << poller.status();
    EXPECT_EQ(event.count, 0);
  }
  EXPECT_EQ(event.count, 1);
}

}  // namespace
}  // namespace weir
