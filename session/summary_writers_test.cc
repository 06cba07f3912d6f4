// Event files that steps write: what is in them, and writers without one.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/event_file.h"
#include "session/test_op_session.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SummaryWritersTest : public TestOpSession {
 protected:
  SummaryWritersTest() { std::filesystem::remove_all(directory_); }

  Output Text(const std::string& text) { return Const(Tensor::Scalar<std::string>(text)); }
  Output Step(int64_t step) { return Const(Tensor::Scalar(step)); }
  Output Int(int32_t value) { return Const(Tensor::Scalar(value)); }
  Node* Create() {
    return g_.AddNode("CreateSummaryFileWriter",
                      {writer_, Text(directory_), Int(10), Int(1000000), Text(".mine")});
  }
  Node* Scalar(int64_t step, const std::string& tag, Tensor value) {
    return g_.AddNode("WriteScalarSummary", {writer_, Step(step), Text(tag), Const(std::move(value))});
  }
  absl::Status Run(Node* node) { return session().Run({}, {}, {node}).status(); }

  // Of the events with summaries, of the one file there.
  std::vector<EventContent> Events() {
    std::vector<EventContent> events;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      EXPECT_THAT(entry.path().string(), testing::EndsWith(".mine"));
      const auto reader = EventReader::Open(entry.path().string()).value();
      for (EventContent event; reader->ReadNext(&event).value();) {
        if (!event.scalars.empty() || !event.other_tags.empty()) events.push_back(event);
      }
    }
    return events;
  }

  const std::string directory_ = testing::TempDir() + "/summary_writers";
  const Output writer_ = g_.AddOp("SummaryWriter", {}, {{"shared_name", std::string("writer")}});
};

TEST_F(SummaryWritersTest, WriteWhatIsFlushedOrClosed) {
  Node* const create = Create();
  Node* const again = Create();
  Node* const one = Scalar(1, "loss", Tensor::Scalar(0.5f));
  Node* const two = Scalar(2, "count", Tensor::Scalar<int64_t>(7));
  Node* const tensor = g_.AddNode(
      "WriteSummary", {writer_, Step(3), Const(Tensor::Vector<float>({1, 2})), Text("both"), Text("")});
  Node* const flush = g_.AddNode("FlushSummaryWriter", {writer_});
  Node* const close = g_.AddNode("CloseSummaryWriter", {writer_});
  for (Node* const node : {create, one, again, two}) ASSERT_TRUE(Run(node).ok()) << Run(node);
  EXPECT_THAT(Events(), testing::IsEmpty());
  ASSERT_TRUE(Run(flush).ok());
  EXPECT_EQ(Events().size(), 2u);
  for (Node* const node : {tensor, close}) ASSERT_TRUE(Run(node).ok()) << Run(node);
  const std::vector<EventContent> events = Events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].step, 1);
  EXPECT_THAT(events[0].scalars, ElementsAre(testing::Pair("loss", 0.5f)));
  EXPECT_THAT(events[1].scalars, ElementsAre(testing::Pair("count", 7.0f)));
  EXPECT_EQ(events[2].step, 3);
  EXPECT_THAT(events[2].other_tags, ElementsAre("both"));
  EXPECT_THAT(std::string(Run(one).message()), HasSubstr("has no file"));
}

TEST_F(SummaryWritersTest, AFullQueueIsFlushed) {
  Node* const create = Create();
  Node* const write = Scalar(1, "loss", Tensor::Scalar(0.5f));
  ASSERT_TRUE(Run(create).ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Run(write).ok());
  EXPECT_THAT(Events(), testing::IsEmpty());
  ASSERT_TRUE(Run(write).ok());
  EXPECT_EQ(Events().size(), 11u);
}

TEST_F(SummaryWritersTest, AWriterWithoutAFileIsAnError) {
  Node* const flush = g_.AddNode("FlushSummaryWriter", {writer_});
  EXPECT_EQ(Run(flush).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Run(flush).message()), HasSubstr("SummaryWriter 'writer' has no file"));
}

}  // namespace
}  // namespace weir
