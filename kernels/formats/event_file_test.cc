#include "kernels/formats/event_file.h"

#include <sys/mman.h>

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "graph/interchange/proto/event.pb.h"
#include "gtest/gtest.h"
#include "kernels/formats/crc32c.h"
#include "kernels/formats/full_disk.h"
#include "kernels/formats/reader_state.h"
#include "kernels/formats/summary.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<tensorflow::Event> ReadAll(const std::string& path, absl::Status* status) {
  std::vector<tensorflow::Event> events;
  const auto reader = EventReader::Open(path);
  *status = reader.status();
  while (status->ok()) {
    tensorflow::Event event;
    const absl::StatusOr<bool> found = (*reader)->ReadNext(&event);
    *status = found.status();
    if (!found.ok() || !*found) break;
    events.push_back(event);
  }
  return events;
}

TEST(EventFileTest, ReadsTensorFlowsFile) {
  absl::Status status;
  const std::vector<tensorflow::Event> events = ReadAll(TestData("events.out.tfevents.test"), &status);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(events.size(), 9);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_GT(events[1].graph_def().size(), 9000);
  EXPECT_EQ(events[3].summary().value(0).simple_value(), 1.5f);
  EXPECT_EQ(events[3].summary().value(1).tag(), "hist");
}

// As a program reads them that does not know TensorFlow's messages.
TEST(EventFileTest, ReadsContentsWithoutMessages) {
  const auto tensorflows = EventReader::Open(TestData("events.out.tfevents.test")).value();
  std::vector<EventContent> contents;
  for (EventContent content; tensorflows->ReadNext(&content).value();) contents.push_back(content);
  ASSERT_EQ(contents.size(), 9);
  EXPECT_GT(contents[0].wall_time, 1e9);
  EXPECT_GT(contents[1].graph_def.size(), 9000);
  EXPECT_TRUE(contents[1].scalars.empty());
  ASSERT_EQ(contents[3].scalars.size(), 1);
  EXPECT_EQ(contents[3].scalars[0].second, 1.5f);
  EXPECT_THAT(contents[3].other_tags, ElementsAre("hist", "image/image/0", "text"));
  EXPECT_EQ(contents[3].graph_def, "") << "that of an earlier event";

  const auto writer = EventWriter::Create(NewTestDirectory()).value();
  ASSERT_TRUE(writer->AddSessionLog(7, EventWriter::SessionStatus::kCheckpoint, "m-7").ok());
  ASSERT_TRUE(writer->Close().ok());
  const auto reader = EventReader::Open(writer->path()).value();
  EventContent content;
  ASSERT_TRUE(reader->ReadNext(&content).value());
  EXPECT_FALSE(content.session_status.has_value());
  ASSERT_TRUE(reader->ReadNext(&content).value());
  EXPECT_EQ(content.step, 7);
  EXPECT_EQ(content.session_status, EventWriter::SessionStatus::kCheckpoint);
  EXPECT_EQ(content.checkpoint_path, "m-7");
  EXPECT_FALSE(reader->ReadNext(&content).value());
}

TEST(SummaryTest, HistogramBucketsAreTensorFlows) {
  absl::Status status;
  const std::vector<tensorflow::Event> events = ReadAll(TestData("events.out.tfevents.test"), &status);
  ASSERT_TRUE(status.ok()) << status;
  const tensorflow::HistogramProto& theirs = events[3].summary().value(1).histo();
  const auto bytes = HistogramSummary("hist", Tensor::Vector<float>({-1, 0, 2.5}));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  tensorflow::Summary ours;
  ASSERT_TRUE(ours.ParseFromString(*bytes));
  EXPECT_EQ(ours.value(0).histo().SerializeAsString(), theirs.SerializeAsString());
}

TEST(SummaryTest, HistogramsOfEveryKind) {
  tensorflow::Summary summary;
  ASSERT_TRUE(summary.ParseFromString(*HistogramSummary("h", Tensor(DType::kFloat32, Shape({0})))));
  EXPECT_THAT(summary.value(0).histo().bucket_limit(), ElementsAre(DBL_MAX));
  ASSERT_TRUE(summary.ParseFromString(*HistogramSummary("h", Tensor::Vector<double>({DBL_MAX, -DBL_MAX}))));
  EXPECT_EQ(summary.value(0).histo().num(), 2);
  ASSERT_TRUE(summary.ParseFromString(*HistogramSummary("h", Tensor::Vector<int64_t>({3, 3, 4}))));
  EXPECT_EQ(summary.value(0).histo().sum(), 10);
  EXPECT_THAT(std::string(HistogramSummary("h", Tensor::Vector<float>({1, NAN})).status().message()),
              HasSubstr("histogram 'h' of float[2]: it has a NaN element"));
  EXPECT_FALSE(HistogramSummary("h", Tensor::Vector<float>({INFINITY})).ok());
  EXPECT_FALSE(HistogramSummary("h", Tensor::Vector<std::string>({"x"})).ok());
}

TEST(SummaryTest, MergeRefusesEqualTags) {
  const std::string a = ScalarSummary("a", 1), b = ScalarSummary("b", 2);
  tensorflow::Summary merged;
  ASSERT_TRUE(merged.ParseFromString(*MergeSummaries({a, b})));
  EXPECT_EQ(merged.value_size(), 2);
  EXPECT_THAT(std::string(MergeSummaries({a, a}).status().message()), HasSubstr("'a'"));
  EXPECT_FALSE(MergeSummaries({"nonsense"}).ok());
}

TEST(EventFileTest, WritesWhatItReads) {
  const std::string directory = NewTestDirectory() + "/events";
  EventWriter::Options options;
  options.clock = [] { return absl::FromUnixSeconds(1600000000); };
  const auto writer = EventWriter::Create(directory, options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_THAT(FileNameOf((*writer)->path()), StartsWith("events.out.tfevents.1600000000."));
  EXPECT_TRUE((*writer)->AddScalar(1, "loss", 0.5f).ok());
  EXPECT_TRUE((*writer)->AddHistogram(2, "weights", Tensor::Vector<float>({1, 2})).ok());
  const std::string graph("\x22\0", 2);  // of empty versions
  EXPECT_TRUE((*writer)->AddGraph(0, graph).ok());
  EXPECT_EQ((*writer)->AddGraph(0, "graph").code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE((*writer)->AddMetaGraph(0, "meta").ok());
  EXPECT_TRUE((*writer)->AddSessionLog(3, EventWriter::SessionStatus::kCheckpoint, "/m-3").ok());
  EXPECT_TRUE((*writer)->AddRunMetadata(4, "step4", "metadata").ok());
  EXPECT_FALSE((*writer)->AddSummary(5, "nonsense").ok());
  ASSERT_TRUE((*writer)->Flush().ok());
  absl::Status status;
  const std::vector<tensorflow::Event> events = ReadAll((*writer)->path(), &status);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(events.size(), 7);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].wall_time(), 1600000000.0);
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.5f);
  EXPECT_EQ(events[2].summary().value(0).histo().num(), 2);
  EXPECT_EQ(events[3].graph_def(), graph);
  EXPECT_EQ(events[5].session_log().status(), tensorflow::SessionLog::CHECKPOINT);
  // A second writer in the same second gets another file.
  const auto second = EventWriter::Create(directory, options);
  ASSERT_TRUE(second.ok());
  EXPECT_NE((*second)->path(), (*writer)->path());
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_EQ((*writer)->AddScalar(1, "x", 1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(EventFileTest, OptionsThatLackSomethingAreRefused) {
  EventWriter::Options no_files, no_clock;
  no_files.file_system = nullptr;
  no_clock.clock = nullptr;
  for (const EventWriter::Options& options : {no_files, no_clock}) {
    const absl::Status status = EventWriter::Create(NewTestDirectory(), options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("an event writer needs a file system and a clock"));
  }
}

// More bytes than a message may have: zeros, which take no memory until they are read.
class HugeBytes {
 public:
  HugeBytes() : start_(mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_NE(start_, MAP_FAILED);
  }
  HugeBytes(const HugeBytes&) = delete;
  HugeBytes& operator=(const HugeBytes&) = delete;
  ~HugeBytes() { munmap(start_, kSize); }

  absl::string_view view() const { return absl::string_view(static_cast<const char*>(start_), kSize); }

 private:
  static constexpr size_t kSize = size_t{INT_MAX} + 1;
  void* const start_;
};

// No message is as long, whatever its bytes.
TEST(EventFileTest, MessagesOfTwoGigabytesAreRefused) {
  const HugeBytes bytes;
  const auto writer = EventWriter::Create(NewTestDirectory()).value();
  EXPECT_EQ(writer->AddSummary(1, bytes.view()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(writer->AddSerializedEvent(bytes.view()).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(writer->AddGraph(1, bytes.view()).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(writer->AddScalar(1, "loss", 1.f).ok());
  EXPECT_TRUE(writer->Close().ok());
  EXPECT_EQ(ParseReaderState(bytes.view()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EventFileTest, FlushesByItselfAfterAWhile) {
  absl::Time now = absl::FromUnixSeconds(1);
  EventWriter::Options options;
  options.clock = [&now] { return now; };
  const auto writer = EventWriter::Create(NewTestDirectory(), options);
  ASSERT_TRUE((*writer)->AddScalar(1, "a", 1).ok());
  absl::Status status;
  EXPECT_EQ(ReadAll((*writer)->path(), &status).size(), 1);
  now += absl::Seconds(31);
  ASSERT_TRUE((*writer)->AddScalar(2, "a", 1).ok());
  EXPECT_EQ(ReadAll((*writer)->path(), &status).size(), 3);
}

TEST(EventFileTest, WritersOfOneSecondHaveFilesOfTheirOwn) {
  const std::string directory = NewTestDirectory();
  EventWriter::Options options;
  options.clock = [] { return absl::FromUnixSeconds(1700000000); };
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<EventWriter>> writers(16);
  for (size_t i = 0; i < writers.size(); ++i) {
    threads.emplace_back([&, i] {
      auto writer = EventWriter::Create(directory, options);
      ASSERT_TRUE(writer.ok()) << writer.status();
      ASSERT_TRUE((*writer)->AddScalar(static_cast<int64_t>(i), "x", 1).ok());
      ASSERT_TRUE((*writer)->Close().ok());
      writers[i] = *std::move(writer);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> paths;
  for (size_t i = 0; i < writers.size(); ++i) {
    paths.insert(writers[i]->path());
    const auto reader = EventReader::Open(writers[i]->path()).value();
    tensorflow::Event event;
    ASSERT_TRUE(reader->ReadNext(&event).value());
    ASSERT_TRUE(reader->ReadNext(&event).value());
    EXPECT_EQ(event.step(), static_cast<int64_t>(i));
    EXPECT_FALSE(reader->ReadNext(&event).value());
  }
  EXPECT_EQ(paths.size(), writers.size());
}

// The parser of messages counts in an int: a record of 4 GiB and 1 byte was read as one of 1 byte.
TEST(EventFileTest, ARecordThatNoEventCanHaveIsDamage) {
  const std::string path = NewTestDirectory() + "/events";
  std::string header(12, '\0');
  const uint64_t length = uint64_t{3} << 30;
  std::memcpy(header.data(), &length, 8);
  const uint32_t checksum = MaskCrc32c(Crc32c({header.data(), 8}));
  std::memcpy(header.data() + 8, &checksum, 4);
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, header).ok());
  EventContent content;
  const absl::Status status = EventReader::Open(path).value()->ReadNext(&content).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("has 3221225472 bytes, more than the 2147483647"));
}

TEST(EventFileTest, AFullDiskIsReportedAndStays) {
  FullDisk disk(200);
  EventWriter::Options options;
  options.file_system = &disk;
  const auto writer = EventWriter::Create(NewTestDirectory(), options);
  ASSERT_TRUE(writer.ok());
  const absl::Status status = (*writer)->AddScalar(1, std::string(300, 't'), 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ((*writer)->AddScalar(2, "a", 1), status);
  EXPECT_EQ((*writer)->Close(), status);
}

}  // namespace
}  // namespace weir
