// Signals that come while a product is computed.
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/thread_pool.h"

namespace weir {
namespace {

std::atomic<int> num_handled = 0;

// Takes some of the stack of whoever is interrupted.
void Handle(int) {
  volatile char frame[4096];
  for (volatile char& byte : frame) byte = 'x';
  ++num_handled;
}

// Sends SIGUSR1 to the thread that made it, again and again.
class Signals {
 public:
  Signals() {
    struct sigaction action = {};
    action.sa_handler = Handle;
    sigaction(SIGUSR1, &action, &before_);
    sender_ = std::thread([this, target = pthread_self()] {
      while (!is_over_) {
        const int num_before = num_handled;
        pthread_kill(target, SIGUSR1);
        while (!is_over_ && num_handled == num_before) std::this_thread::yield();
      }
    });
  }
  ~Signals() {
    is_over_ = true;
    sender_.join();
    sigaction(SIGUSR1, &before_, nullptr);
  }

 private:
  std::atomic<bool> is_over_ = false;
  struct sigaction before_ = {};
  std::thread sender_;
};

TEST(ProductSignalsTest, AHandlerWritesOverNothing) {
  const ProductShape shape = {.m = 100, .k = 784, .n = 300};
  const std::vector<float> a(shape.m * shape.k, 0.5f), b(shape.k * shape.n, 2.0f);
  ThreadPool pool(1);
  const Signals signals;
  while (num_handled < 400) {
    std::vector<float> c(shape.m * shape.n);
    ASSERT_TRUE(MultiplyFloat(pool, shape, a.data(), b.data(), c.data()).ok());
    for (const float sum : c) ASSERT_EQ(sum, static_cast<float>(shape.k));
  }
}

}  // namespace
}  // namespace weir
