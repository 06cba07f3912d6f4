// Queues as steps see them: what goes in and comes out, who waits for whom, and how waiting ends. What the
// comments call TensorFlow's was compared with TensorFlow 2.21.
#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/test_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Shapes = std::vector<PartialShape>;

constexpr absl::Duration kPatience = absl::Seconds(60);

std::vector<int32_t> Numbers(const Tensor& tensor) {
  return {tensor.flat<int32_t>().begin(), tensor.flat<int32_t>().end()};
}

// Ops on one queue. Components are fed as they are asked for.
struct QueueOps {
  QueueOps(GraphBuilder& g, const std::string& kind, std::vector<DType> types, AttrMap attrs) : g(g) {
    attrs["component_types"] =
        kind == "PriorityQueueV2" ? std::vector<DType>(types.begin() + 1, types.end()) : types;
    if (attrs.count("shapes") == 0) attrs["shapes"] = Shapes(types.size(), PartialShape(Shape()));
    handle = g.AddOp(kind, {}, attrs);
    for (const DType type : types) components.push_back(g.AddOp("Placeholder", {}, {{"dtype", type}}));
    count = g.AddOp("Placeholder", {}, {{"dtype", D::kInt32}});
    const AttrMap typed = {{"component_types", types}};
    enqueue = g.AddNode("QueueEnqueueV2", {handle, components});
    enqueue_many = g.AddNode("QueueEnqueueManyV2", {handle, components});
    dequeue = g.AddNode("QueueDequeueV2", {handle}, typed);
    dequeue_many = g.AddNode("QueueDequeueManyV2", {handle, count}, typed);
    dequeue_up_to = g.AddNode("QueueDequeueUpToV2", {handle, count}, typed);
    close = g.AddNode("QueueCloseV2", {handle});
    cancel = g.AddNode("QueueCloseV2", {handle}, {{"cancel_pending_enqueues", true}});
    size = g.AddOp("QueueSizeV2", {handle});
    is_closed = g.AddOp("QueueIsClosedV2", {handle});
  }

  GraphBuilder& g;
  Output handle, count, size, is_closed;
  std::vector<Output> components;
  Node *enqueue, *enqueue_many, *dequeue, *dequeue_many, *dequeue_up_to, *close, *cancel;
};

class QueuesTest : public TestSession {
 protected:
  QueueOps& Make(const std::string& kind, AttrMap attrs = {{"capacity", 3}},
                 std::vector<DType> types = {D::kInt32}) {
    queues_.push_back(std::make_unique<QueueOps>(g_, kind, std::move(types), std::move(attrs)));
    return *queues_.back();
  }

  absl::Status Put(QueueOps& q, int32_t value) {
    return session().Run({{q.components[0], Tensor::Scalar(value)}}, {}, {q.enqueue}).status();
  }
  absl::Status PutMany(QueueOps& q, std::vector<int32_t> values, const RunOptions& options = {}) {
    return session().Run({{q.components[0], VectorOf(values)}}, {}, {q.enqueue_many}, options).status();
  }
  static Tensor VectorOf(const std::vector<int32_t>& values) {
    return Tensor::FromSpan<int32_t>({static_cast<int64_t>(values.size())}, values);
  }
  absl::StatusOr<int32_t> Take(QueueOps& q) {
    auto result = session().Run({}, {q.dequeue->output(0)});
    if (!result.ok()) return result.status();
    return (*result)[0].scalar<int32_t>();
  }
  absl::StatusOr<std::vector<int32_t>> TakeMany(QueueOps& q, int32_t count, bool up_to = false,
                                                const RunOptions& options = {}) {
    Node* const op = up_to ? q.dequeue_up_to : q.dequeue_many;
    auto result = session().Run({{q.count, Tensor::Scalar(count)}}, {op->output(0)}, {}, options);
    if (!result.ok()) return result.status();
    return Numbers((*result)[0]);
  }
  absl::Status Close(QueueOps& q) { return session().Run({}, {}, {q.close}).status(); }
  absl::Status CloseAndCancel(QueueOps& q) { return session().Run({}, {}, {q.cancel}).status(); }
  int32_t Size(QueueOps& q) { return session().Run({}, {q.size}).value()[0].scalar<int32_t>(); }

  // Runs the call on a thread of its own; returns when the queue has reached this size.
  template <typename Call>
  auto StartUntilSize(QueueOps& q, int32_t size, Call call) {
    session();  // made on this thread
    auto result = std::async(std::launch::async, std::move(call));
    AwaitSize(q, size);
    return result;
  }
  void AwaitSize(QueueOps& q, int32_t size) {
    const absl::Time end = absl::Now() + kPatience;
    while (Size(q) != size && absl::Now() < end) {
    }
    EXPECT_EQ(Size(q), size);
  }

  // Begins to take that many.
  std::shared_ptr<Step> StartTakingMany(QueueOps& q, int32_t count) {
    return session().Prepare({q.count}, {q.dequeue_many->output(0)}).value()->Start({Tensor::Scalar(count)});
  }

 private:
  std::vector<std::unique_ptr<QueueOps>> queues_;
};

TEST_F(QueuesTest, ElementsLeaveAFifoQueueInTheirOrder) {
  QueueOps& q = Make("FIFOQueueV2");
  ASSERT_TRUE(Put(q, 5).ok());
  ASSERT_TRUE(PutMany(q, {6, 7}).ok());
  EXPECT_EQ(Size(q), 3);
  EXPECT_EQ(Take(q).value(), 5);
  EXPECT_THAT(TakeMany(q, 2).value(), ElementsAre(6, 7));
  EXPECT_THAT(TakeMany(q, 0).value(), ElementsAre());
  EXPECT_EQ(Size(q), 0);
}

TEST_F(QueuesTest, AClosedQueueGivesWhatIsLeft) {
  QueueOps& q = Make("FIFOQueueV2");
  ASSERT_TRUE(PutMany(q, {1, 2, 3}).ok());
  ASSERT_TRUE(Close(q).ok());
  EXPECT_TRUE(session().Run({}, {q.is_closed}).value()[0].scalar<bool>());
  EXPECT_TRUE(absl::IsCancelled(Put(q, 4)));
  EXPECT_TRUE(absl::IsCancelled(Close(q)));
  EXPECT_TRUE(CloseAndCancel(q).ok());
  const absl::Status too_few = TakeMany(q, 4).status();
  EXPECT_TRUE(absl::IsOutOfRange(too_few)) << too_few;
  EXPECT_THAT(std::string(too_few.message()),
              HasSubstr("is closed and has insufficient elements (requested 4, current size 3)"));
  EXPECT_EQ(Take(q).value(), 1);
  EXPECT_THAT(TakeMany(q, 4, /*up_to=*/true).value(), ElementsAre(2, 3));
  EXPECT_TRUE(absl::IsOutOfRange(TakeMany(q, 4, /*up_to=*/true).status()));
  EXPECT_TRUE(absl::IsOutOfRange(Take(q).status()));
  EXPECT_TRUE(PutMany(q, {}).ok());  // as in TensorFlow
  EXPECT_TRUE(TakeMany(q, 0).ok());
}

TEST_F(QueuesTest, ComponentsMayHaveAnyShapesWhereNoneAreGiven) {
  QueueOps& q = Make("FIFOQueueV2", {{"capacity", 3}, {"shapes", Shapes()}}, {D::kInt32, D::kString});
  const Tensor words = Tensor::Vector<std::string>({"a", "b"});
  ASSERT_TRUE(session()
                  .Run({{q.components[0], VectorOf({1, 2, 3})}, {q.components[1], words}}, {}, {q.enqueue})
                  .ok());
  ASSERT_TRUE(session()
                  .Run({{q.components[0], VectorOf({7, 8})}, {q.components[1], words}}, {}, {q.enqueue_many})
                  .ok());
  auto first = session().Run({}, {q.dequeue->output(0), q.dequeue->output(1)}).value();
  EXPECT_THAT(Numbers(first[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(first[1].flat<std::string>(), ElementsAre("a", "b"));
  auto second = session().Run({}, {q.dequeue->output(0), q.dequeue->output(1)}).value();
  EXPECT_EQ(second[0].shape(), Shape());
  EXPECT_EQ(second[1].scalar<std::string>(), "a");
  EXPECT_TRUE(absl::IsInvalidArgument(TakeMany(q, 1).status()));
  EXPECT_EQ(Size(q), 1);
}

TEST_F(QueuesTest, ABatchOfAPaddingQueueIsAsLargeAsItsLargestElement) {
  QueueOps& q = Make("PaddingFIFOQueueV2",
                     {{"capacity", 5}, {"shapes", Shapes{*PartialShape::FromDims({-1, -1})}}}, {D::kInt32});
  const auto put = [&](const Tensor& value) {
    return session().Run({{q.components[0], value}}, {}, {q.enqueue});
  };
  ASSERT_TRUE(put(Tensor::From<int32_t>({1, 2}, {1, 2})).ok());
  ASSERT_TRUE(put(Tensor::From<int32_t>({2, 1}, {5, 6})).ok());
  ASSERT_TRUE(put(Tensor(D::kInt32, {0, 0})).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(put(VectorOf({1})).status()));
  auto batch = session().Run({{q.count, Tensor::Scalar(3)}}, {q.dequeue_many->output(0)}).value()[0];
  EXPECT_EQ(batch.shape(), Shape({3, 2, 2}));
  EXPECT_THAT(Numbers(batch), ElementsAre(1, 2, 0, 0, 5, 0, 6, 0, 0, 0, 0, 0));
  EXPECT_EQ(session().Run({{q.count, Tensor::Scalar(0)}}, {q.dequeue_many->output(0)}).value()[0].shape(),
            Shape({0, 0, 0}));
}

// The numbers are TensorFlow's.
TEST_F(QueuesTest, AShuffledQueueDrawsWhatTensorFlowDraws) {
  QueueOps& q = Make("RandomShuffleQueueV2", {{"capacity", 10}, {"seed", 7}, {"seed2", 9}});
  ASSERT_TRUE(PutMany(q, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}).ok());
  EXPECT_EQ(Take(q).value(), 1);
  EXPECT_EQ(Take(q).value(), 8);
  EXPECT_THAT(TakeMany(q, 3).value(), ElementsAre(6, 5, 7));
  ASSERT_TRUE(PutMany(q, {20, 21, 22, 23}).ok());
  EXPECT_THAT(TakeMany(q, 5).value(), ElementsAre(0, 2, 9, 21, 22));
  ASSERT_TRUE(Close(q).ok());
  EXPECT_THAT(TakeMany(q, 9, /*up_to=*/true).value(), ElementsAre(3, 23, 4, 20));
}

TEST_F(QueuesTest, SomeElementsStayInAShuffledQueueUntilItIsClosed) {
  QueueOps& q = Make("RandomShuffleQueueV2", {{"capacity", 10}, {"min_after_dequeue", 3}});
  ASSERT_TRUE(PutMany(q, {1, 2, 3, 4}).ok());
  ASSERT_TRUE(Take(q).ok());
  auto waits = StartUntilSize(q, 3, [&] { return TakeMany(q, 3); });
  ASSERT_TRUE(Close(q).ok());
  EXPECT_EQ(waits.get().value().size(), 3);
}

TEST_F(QueuesTest, ThePriorityDecidesAndThenTheTimeOfArrival) {
  QueueOps& q =
      Make("PriorityQueueV2", {{"capacity", 9}, {"shapes", Shapes{Shape()}}}, {D::kInt64, D::kInt32});
  ASSERT_TRUE(session()
                  .Run({{q.components[0], Tensor::Vector<int64_t>({3, 1, 2, 1, 1})},
                        {q.components[1], VectorOf({30, 10, 20, 11, 12})}},
                       {}, {q.enqueue_many})
                  .ok());
  auto batch =
      session().Run({{q.count, Tensor::Scalar(4)}}, {q.dequeue_many->output(0), q.dequeue_many->output(1)});
  EXPECT_THAT(batch.value()[0].flat<int64_t>(), ElementsAre(1, 1, 1, 2));
  EXPECT_THAT(Numbers(batch.value()[1]), ElementsAre(10, 11, 12, 20));
}

// What does not fit is refused, and leaves the queue as it was.
TEST_F(QueuesTest, RefusalsSayWhatWasAskedAndWhatIsThere) {
  QueueOps& q = Make("FIFOQueueV2", {{"capacity", 3}, {"shapes", Shapes{Shape({2})}}, {"shared_name", "q"}});
  const Output floats = g_.AddOp("Placeholder", {}, {{"dtype", D::kFloat32}});
  Node* const other_type = g_.AddNode("QueueEnqueueV2", {q.handle, std::vector<Output>{floats}});
  Node* const other_count =
      g_.AddNode("QueueEnqueueManyV2", {q.handle, std::vector<Output>{q.components[0], q.components[0]}});
  const AttrMap two = {{"component_types", std::vector<DType>{D::kInt32, D::kFloat32}}};
  const Output both = g_.AddOp("QueueDequeueV2", {q.handle}, two);
  const Output both_many = g_.AddOp("QueueDequeueManyV2", {q.handle, q.count}, two);
  const auto error = [&](const Feeds& feeds, Node* node) {
    return std::string(session().Run(feeds, {}, {node}).status().message());
  };
  const TensorRef component = q.components[0], count = q.count;
  EXPECT_THAT(error({{component, VectorOf({1, 2, 3})}}, q.enqueue),
              HasSubstr("component 0 must be [2], is [3]"));
  EXPECT_THAT(error({{component, VectorOf({1, 2})}}, q.enqueue_many),
              HasSubstr("each slice of component 0 must be [2], is []"));
  EXPECT_THAT(error({{component, Tensor::Scalar(1)}}, q.enqueue_many), HasSubstr("is a scalar"));
  EXPECT_THAT(error({{floats, Tensor::Scalar(1.0f)}}, other_type),
              HasSubstr("components are (float) but FIFOQueue 'q' holds (int32)"));
  EXPECT_THAT(error({{component, VectorOf({1, 2})}}, other_count),
              HasSubstr("components are (int32, int32) but"));
  EXPECT_THAT(error({}, both.node),
              HasSubstr("component_types are (int32, float) but FIFOQueue 'q' holds (int32)"));
  EXPECT_THAT(error({{count, Tensor::Scalar(1)}}, both_many.node),
              HasSubstr("component_types are (int32, float)"));
  EXPECT_THAT(error({{count, Tensor::Scalar(-1)}}, q.dequeue_many), HasSubstr("n must be at least 0, is -1"));
  EXPECT_THAT(error({{count, Tensor::Scalar(-1)}}, q.dequeue_up_to),
              HasSubstr("n must be at least 0, is -1"));
  EXPECT_THAT(error({{count, VectorOf({1, 2})}}, q.dequeue_many), HasSubstr("n must be one number"));
  EXPECT_EQ(Size(q), 0);
}

// ---- Waiting ----

TEST_F(QueuesTest, AnEnqueueOfMoreThanThereIsRoomForWaits) {
  QueueOps& q = Make("FIFOQueueV2");
  auto waits = StartUntilSize(q, 3, [&] { return PutMany(q, {1, 2, 3, 4, 5}); });
  EXPECT_THAT(TakeMany(q, 5).value(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_TRUE(waits.get().ok());
}

TEST_F(QueuesTest, ADequeueMayBeLargerThanTheCapacity) {
  QueueOps& q = Make("FIFOQueueV2");
  session();
  auto waits = std::async(std::launch::async, [&] { return TakeMany(q, 7); });
  EXPECT_TRUE(PutMany(q, {1, 2, 3, 4, 5}).ok());
  EXPECT_TRUE(PutMany(q, {6, 7}).ok());
  EXPECT_THAT(waits.get().value(), ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST_F(QueuesTest, AWaitingEnqueueIsCancelledByACloseThatSaysSo) {
  QueueOps& q = Make("FIFOQueueV2");
  auto waits = StartUntilSize(q, 3, [&] { return PutMany(q, {1, 2, 3, 4, 5}); });
  EXPECT_TRUE(CloseAndCancel(q).ok());
  EXPECT_TRUE(absl::IsCancelled(waits.get()));
  EXPECT_THAT(TakeMany(q, 3).value(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(absl::IsOutOfRange(Take(q).status()));
}

TEST_F(QueuesTest, AnotherCloseComesAfterTheEnqueuesThatWait) {
  QueueOps& q = Make("FIFOQueueV2");
  auto enqueue = StartUntilSize(q, 3, [&] { return PutMany(q, {1, 2, 3, 4, 5}); });
  auto close = std::async(std::launch::async, [&] { return Close(q); });
  EXPECT_THAT(TakeMany(q, 5).value(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_TRUE(enqueue.get().ok());
  EXPECT_TRUE(close.get().ok());
  EXPECT_TRUE(absl::IsOutOfRange(Take(q).status()));
}

// The elements that it had taken are there again.
TEST_F(QueuesTest, ADequeueThatIsRefusedLeavesTheQueueAsItWas) {
  QueueOps& q = Make("FIFOQueueV2");
  ASSERT_TRUE(PutMany(q, {1, 2, 3}).ok());
  auto waits = StartUntilSize(q, 0, [&] { return TakeMany(q, 5); });
  ASSERT_TRUE(Close(q).ok());
  const absl::Status refused = waits.get().status();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("(requested 2, current size 0)"));  // as in TensorFlow
  EXPECT_THAT(TakeMany(q, 3).value(), ElementsAre(1, 2, 3));
}

TEST_F(QueuesTest, ADequeueThatIsCancelledLeavesTheQueueAsItWas) {
  QueueOps& q = Make("FIFOQueueV2");
  ASSERT_TRUE(PutMany(q, {1, 2}).ok());
  const auto step = StartTakingMany(q, 3);
  AwaitSize(q, 0);
  step->Cancel(absl::CancelledError("enough"));
  EXPECT_EQ(step->Await().status(), absl::CancelledError("enough"));
  EXPECT_EQ(Size(q), 2);
  ASSERT_TRUE(Put(q, 3).ok());
  EXPECT_THAT(TakeMany(q, 3).value(), ElementsAre(1, 2, 3));
}

TEST_F(QueuesTest, AnEnqueueThatIsCancelledLeavesWhatIsIn) {
  QueueOps& q = Make("FIFOQueueV2");
  const auto step =
      session().Prepare({q.components[0]}, {}, {q.enqueue_many}).value()->Start({VectorOf({1, 2, 3, 4, 5})});
  AwaitSize(q, 3);
  step->Cancel(absl::CancelledError("enough"));
  EXPECT_EQ(step->Await().status(), absl::CancelledError("enough"));
  EXPECT_THAT(TakeMany(q, 3).value(), ElementsAre(1, 2, 3));
  EXPECT_EQ(Size(q), 0);
}

// One that waits for much would let nobody else have what is there.
TEST_F(QueuesTest, WhatACancelledDequeueHeldGoesToTheNextInLine) {
  QueueOps& q = Make("FIFOQueueV2");
  ASSERT_TRUE(PutMany(q, {1, 2}).ok());
  const auto first = StartTakingMany(q, 3);
  AwaitSize(q, 0);
  const auto next = session().Prepare({}, {q.dequeue->output(0)}).value()->Start({});
  first->Cancel(absl::CancelledError("enough"));
  EXPECT_EQ(first->Await().status(), absl::CancelledError("enough"));
  EXPECT_EQ(next->Await().value()[0].scalar<int32_t>(), 1);
  EXPECT_EQ(Take(q).value(), 2);
}

TEST_F(QueuesTest, ProducersAndConsumersOfManyStepsLoseNothing) {
  QueueOps& q = Make("FIFOQueueV2");
  constexpr int kEach = 200;
  session();
  std::vector<std::future<absl::Status>> producers;
  for (int p = 0; p < 3; ++p) {
    producers.push_back(std::async(std::launch::async, [&, p]() -> absl::Status {
      for (int i = 0; i < kEach; ++i) {
        absl::Status status = i % 7 == 0 ? PutMany(q, {p * kEach + i}) : Put(q, p * kEach + i);
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    }));
  }
  const auto consume = [&] {
    std::vector<int32_t> got;
    while (true) {
      absl::StatusOr<std::vector<int32_t>> some = TakeMany(q, 4, /*up_to=*/true);
      if (!some.ok()) return got;
      got.insert(got.end(), some->begin(), some->end());
    }
  };
  auto one = std::async(std::launch::async, consume), other = std::async(std::launch::async, consume);
  for (auto& producer : producers) EXPECT_TRUE(producer.get().ok());
  EXPECT_TRUE(Close(q).ok());
  std::vector<int32_t> all = one.get(), rest = other.get();
  all.insert(all.end(), rest.begin(), rest.end());
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 3 * kEach);
  for (int32_t i = 0; i < 3 * kEach; ++i) EXPECT_EQ(all[i], i);
}

TEST_F(QueuesTest, AProducerAndAConsumerInOneStep) {
  QueueOps& q = Make("FIFOQueueV2", {{"capacity", 1}});
  const Feeds feeds = {{q.components[0], VectorOf({1, 2, 3})}, {q.count, Tensor::Scalar(3)}};
  auto result = session().Run(feeds, {q.dequeue_many->output(0)}, {q.enqueue_many});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Numbers((*result)[0]), ElementsAre(1, 2, 3));
}

// ---- Whose it is ----

TEST_F(QueuesTest, OneWithoutANameBelongsToItsSession) {
  QueueOps& q = Make("FIFOQueueV2");
  ASSERT_TRUE(Put(q, 1).ok());
  auto other = Session::Create(g_.graph(), {&worker_}, runtime_->kernels()).value();
  EXPECT_EQ(other->Run({}, {q.size}).value()[0].scalar<int32_t>(), 0);
  EXPECT_EQ(Size(q), 1);
}

TEST_F(QueuesTest, OneWithANameIsSharedByThoseWhoAskForTheSame) {
  QueueOps& q = Make("FIFOQueueV2", {{"capacity", 3}, {"shared_name", "shared"}});
  QueueOps& same = Make("FIFOQueueV2", {{"capacity", 3}, {"shared_name", "shared"}});
  QueueOps& smaller = Make("FIFOQueueV2", {{"capacity", 2}, {"shared_name", "shared"}});
  QueueOps& shuffled = Make("RandomShuffleQueueV2", {{"capacity", 3}, {"shared_name", "shared"}});
  ASSERT_TRUE(Put(q, 1).ok());
  EXPECT_EQ(Size(same), 1);
  EXPECT_THAT(std::string(session().Run({}, {smaller.size}).status().message()),
              HasSubstr("the shared queue 'shared' has capacity 3, asked for with 2"));
  EXPECT_THAT(std::string(session().Run({}, {shuffled.size}).status().message()),
              HasSubstr("has kind FIFOQueue, asked for with RandomShuffleQueue"));
}

TEST_F(QueuesTest, AStepThatWaitsEndsWithItsSession) {
  QueueOps& q = Make("FIFOQueueV2");
  ASSERT_TRUE(PutMany(q, {1}).ok());
  auto waits = StartUntilSize(q, 0, [&] { return TakeMany(q, 2); });
  session().Close();
  EXPECT_FALSE(waits.get().ok());
}

}  // namespace
}  // namespace weir
