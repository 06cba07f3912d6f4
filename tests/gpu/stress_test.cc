// Streams, events, memory and sessions of a GPU under load, from several threads: what comes out must be what
// one thread computes on the host, and nothing may be left.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/caching_allocator.h"
#include "kernels/cuda/cuda_stream.h"
#include "ops/training/momentum.h"
#include "session/test_cuda_models.h"
#include "tests/gpu/gpu_place.h"

namespace weir::gpu_check {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Memory that a device copies from and to.
class Pinned {
 public:
  Pinned(CudaApi& api, size_t num_bytes) : api_(api), address_(api.AllocatePinned(num_bytes).value()) {}
  ~Pinned() { EXPECT_TRUE(api_.FreePinned(address_).ok()); }
  uint8_t* bytes() const { return static_cast<uint8_t*>(address_); }

 private:
  CudaApi& api_;
  void* const address_;
};

class StressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cuda_.WhyNot(1); !why.empty()) GTEST_SKIP() << why;
    stream_ = CudaStream::Create(api(), 0).value();
  }
  CudaApi& api() { return *cuda_.backend().api; }

  // Each on a thread of its own.
  static void OnThreads(int count, const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
  }

  TestCuda cuda_;
  std::unique_ptr<CudaStream> stream_;
};

// Buffers of threads that share a stream: none has a byte of another, and what is given back and taken again
// is written in the stream's order.
TEST_F(StressTest, NoBufferHasBytesOfAnother) {
  constexpr int kThreads = 4, kRounds = 300;
  CachingAllocator allocator(api(), 0, 256 * kMiB);
  OnThreads(kThreads, [&](int thread) {
    struct Filled {
      RefPtr<Buffer> buffer;
      size_t num_bytes;
      uint8_t value;
    };
    std::mt19937 random(thread);
    std::vector<Filled> held;
    const Pinned host(api(), 4 * kMiB);
    const auto check_and_drop = [&](size_t which) {
      const Filled& filled = held[which];
      ASSERT_TRUE(
          stream_->Copy(CudaCopy::kToHost, host.bytes(), filled.buffer->data(), filled.num_bytes).ok());
      const auto event = stream_->Record();
      ASSERT_TRUE(event.ok() && (*event)->Wait().ok());
      uint8_t* const end = host.bytes() + filled.num_bytes;
      EXPECT_EQ(std::find_if(host.bytes(), end, [&](uint8_t byte) { return byte != filled.value; }), end)
          << filled.num_bytes << " bytes of thread " << thread;
      held.erase(held.begin() + static_cast<int64_t>(which));
    };
    for (int round = 0; round < kRounds; ++round) {
      const size_t num_bytes = 1 + (random() % (size_t{1} << (random() % 23)));
      auto buffer = allocator.Get(num_bytes);
      if (!buffer.ok()) {  // the others have all of it
        EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
        while (!held.empty()) check_and_drop(held.size() - 1);
        continue;
      }
      const auto value = static_cast<uint8_t>(random());
      ASSERT_TRUE(stream_->Fill((*buffer)->data(), value, num_bytes).ok());
      held.push_back({*std::move(buffer), num_bytes, value});
      if (held.size() > 12 || random() % 4 == 0) check_and_drop(random() % held.size());
    }
    while (!held.empty()) check_and_drop(held.size() - 1);
  });
  EXPECT_EQ(allocator.num_bytes_in_use(), 0);
  EXPECT_LE(allocator.num_bytes_reserved(), 256 * kMiB);
  EXPECT_TRUE(allocator.Trim().ok());
  EXPECT_EQ(allocator.num_bytes_reserved(), 0);
}

TEST_F(StressTest, AfterTheLimitAllOfItIsThereAgain) {
  constexpr int64_t kLimit = 64 * kMiB;
  CachingAllocator allocator(api(), 0, kLimit);
  for (const int64_t size : {kMiB, 3 * kMiB, kLimit, 5 * kMiB / 2}) {
    std::vector<RefPtr<Buffer>> held;
    while (true) {
      auto buffer = allocator.Get(size);
      if (!buffer.ok()) {
        EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted) << buffer.status();
        break;
      }
      held.push_back(*std::move(buffer));
      ASSERT_LE(allocator.num_bytes_reserved(), kLimit);
    }
    EXPECT_GE(static_cast<int64_t>(held.size()) * size, kLimit / 2) << "of " << size << " bytes each";
  }
}

// Fills and copies between buffers on three streams. Each waits for the last work on what it reads and
// writes, and for nothing else; the host does the same in the order of the calls.
TEST_F(StressTest, StreamsWaitForWhatTheyAreToldTo) {
  constexpr int kStreams = 3, kBuffers = 8, kWork = 3000;
  constexpr size_t kBytes = 1 << 16;
  std::vector<std::unique_ptr<CudaStream>> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(CudaStream::Create(api(), 0).value());
  std::vector<void*> buffers;
  std::vector<std::vector<uint8_t>> expected(kBuffers, std::vector<uint8_t>(kBytes, 0));
  std::vector<RefPtr<CudaEvent>> last(kBuffers);
  for (int i = 0; i < kBuffers; ++i) {
    buffers.push_back(api().Allocate(0, kBytes).value());
    ASSERT_TRUE(streams[0]->Fill(buffers[i], 0, kBytes).ok());
    last[i] = streams[0]->Record().value();
  }
  std::mt19937 random(7);
  for (int i = 0; i < kWork; ++i) {
    CudaStream& stream = *streams[random() % kStreams];
    const size_t to = random() % kBuffers, from = random() % kBuffers;
    const size_t begin = random() % kBytes, num_bytes = 1 + (random() % (kBytes - begin));
    ASSERT_TRUE(stream.WaitFor(*last[to]).ok());
    auto* const target = static_cast<uint8_t*>(buffers[to]) + begin;
    if (from == to) {
      ASSERT_TRUE(stream.Fill(target, static_cast<uint8_t>(i), num_bytes).ok());
      std::fill_n(expected[to].begin() + static_cast<int64_t>(begin), num_bytes, static_cast<uint8_t>(i));
    } else {
      ASSERT_TRUE(stream.WaitFor(*last[from]).ok());
      const auto* const source = static_cast<const uint8_t*>(buffers[from]) + begin;
      ASSERT_TRUE(stream.Copy(CudaCopy::kOnDevice, target, source, num_bytes).ok());
      std::memcpy(expected[to].data() + begin, expected[from].data() + begin, num_bytes);
    }
    last[to] = stream.Record().value();
    if (from != to) last[from] = last[to];  // nobody may write to it before it is read
  }
  const Pinned host(api(), kBytes);
  for (int i = 0; i < kBuffers; ++i) {
    ASSERT_TRUE(streams[0]->WaitFor(*last[i]).ok());
    ASSERT_TRUE(streams[0]->Copy(CudaCopy::kToHost, host.bytes(), buffers[i], kBytes).ok());
    ASSERT_TRUE(streams[0]->Synchronize().ok());
    EXPECT_EQ(std::memcmp(host.bytes(), expected[i].data(), kBytes), 0) << "buffer " << i;
  }
  last.clear();
  for (auto& stream : streams) ASSERT_TRUE(stream->Synchronize().ok());
  for (void* const buffer : buffers) EXPECT_TRUE(api().Free(0, buffer).ok());
}

TEST_F(StressTest, EventsOfManyThreadsAreDoneInTheStreamsOrder) {
  constexpr int kThreads = 4, kEvents = 500;
  void* const memory = api().Allocate(0, 4096).value();
  OnThreads(kThreads, [&](int thread) {
    RefPtr<CudaEvent> earlier;
    for (int i = 0; i < kEvents; ++i) {
      ASSERT_TRUE(stream_->Fill(memory, static_cast<uint8_t>(i), 4096).ok());
      auto event = stream_->Record();
      ASSERT_TRUE(event.ok());
      if (i % 7 == thread) {
        ASSERT_TRUE((*event)->Wait().ok());
        EXPECT_TRUE((*event)->IsDone().value());
        if (earlier) EXPECT_TRUE(earlier->IsDone().value());
      }
      earlier = *std::move(event);
    }
  });
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(api().Free(0, memory).ok());
}

// Through pinned memory and the thread that copies to the host.
TEST_F(StressTest, TensorsOfAllSizesComeBackAsTheyWere) {
  GpuPlace place({.num_threads = 2});
  ASSERT_EQ(place.why_not(), "");
  Device& gpu = place.gpu();
  OnThreads(4, [&](int thread) {
    std::mt19937 random(thread);
    for (const int64_t elements : {int64_t{1}, int64_t{1000}, kMiB / 4 - 1, kMiB / 4 + 1, 5 * kMiB}) {
      Tensor tensor(DType::kFloat32, Shape({elements}));
      for (float& x : tensor.flat<float>()) x = static_cast<float>(random());
      for (int i = 0; i < 3; ++i) {
        const auto there = gpu.FromHost(tensor);
        ASSERT_TRUE(there.ok()) << there.status();
        const auto back = gpu.ToHost(*there);
        ASSERT_TRUE(back.ok()) << back.status();
        EXPECT_EQ(std::memcmp(back->data(), tensor.data(), tensor.num_bytes()), 0) << elements;
      }
    }
  });
  EXPECT_EQ(gpu.allocator().num_bytes_in_use(), 0);
}

// Sessions of one process, each with a device of its own on one GPU: they learn the same, bit for bit.
TEST_F(StressTest, SessionsOfManyThreadsLearnTheSame) {
  constexpr int kThreads = 4, kSteps = 60;
  std::vector<std::vector<Tensor>> learned(kThreads);
  OnThreads(kThreads, [&](int thread) {
    GpuPlace place({.cuda_graphs = thread % 2 == 0, .num_threads = 2});
    ASSERT_EQ(place.why_not(), "");
    GraphBuilder g(place.runtime().ops());
    const Mlp model = BuildMlp(g, "/gpu:0", "/gpu:0", [] { return std::make_unique<Momentum>(0.05, 0.9); });
    const auto session = place.NewSession(g.graph());
    ASSERT_TRUE(session->Run({}, {}, model.initializers).ok());
    for (int step = 0; step < kSteps; ++step) {
      // Some are waited for, and others are not.
      const std::vector<TensorRef> fetches =
          step % 3 == thread % 3 ? std::vector<TensorRef>{model.loss} : std::vector<TensorRef>{};
      const auto result = session->Run(Batch(model, step, 16 + step % 2), fetches, {model.train});
      ASSERT_TRUE(result.ok()) << result.status();
    }
    learned[thread] = session->Run({}, model.variables).value();
  });
  for (int thread = 1; thread < kThreads; ++thread) {
    ASSERT_EQ(learned[thread].size(), learned[0].size());
    for (size_t i = 0; i < learned[0].size(); ++i) {
      EXPECT_EQ(std::memcmp(learned[thread][i].data(), learned[0][i].data(), learned[0][i].num_bytes()), 0)
          << "variable " << i << " of thread " << thread;
    }
  }
}

}  // namespace
}  // namespace weir::gpu_check
