#include "distributed/command/inspect_command.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

Outcome Inspect(const std::vector<std::string>& args) {
  std::stringstream out, err;
  const absl::StatusOr<int> code = RunInspect(args, out, err);
  if (!code.ok()) return {-1, out.str(), std::string(code.status().message())};
  return {*code, out.str(), err.str()};
}

TEST(InspectCommandTest, Checkpoints) {
  for (const char* path : {"single/model-42", "single/model-42.index", "single", "single/checkpoint"}) {
    const Outcome outcome = Inspect({"checkpoint", TestData(path)});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("single/model-42: 21 tensors in 1 shard\n"));
    EXPECT_THAT(outcome.out, HasSubstr("big          float[200,100]  80.0 kB"));
    EXPECT_THAT(outcome.out, HasSubstr("3 slices"));
    EXPECT_THAT(outcome.out, HasSubstr("every checksum is right"));
  }
  EXPECT_THAT(Inspect({"checkpoint", TestData("single"), "--values=2"}).out, HasSubstr("int32[2,1] {1, -2}"));
}

TEST(InspectCommandTest, DamageIsExitCodeThree) {
  const std::string directory = NewTestDirectory();
  const std::string index = ReadBytes(TestData("single/model-42.index"));
  std::string data = ReadBytes(TestData("single/model-42.data-00000-of-00001"));
  data[100] ^= 1;
  WriteBytes(directory + "/m.index", index);
  WriteBytes(directory + "/m.data-00000-of-00001", data);
  const Outcome damaged = Inspect({"checkpoint", directory + "/m"});
  EXPECT_EQ(damaged.code, 3);
  EXPECT_THAT(damaged.out, HasSubstr("DAMAGED"));
  EXPECT_THAT(damaged.err, HasSubstr("tensor 'big' at bytes [6, 80006): is damaged"));
  EXPECT_EQ(Inspect({"checkpoint", directory + "/m", "--noverify"}).code, 0);

  std::string records = ReadBytes(TestData("records_plain.tfrecord"));
  WriteBytes(directory + "/cut", records.substr(0, 1000));
  const Outcome cut = Inspect({"record", directory + "/cut"});
  EXPECT_EQ(cut.code, 3);
  EXPECT_THAT(cut.out, HasSubstr("4 records"));
  EXPECT_THAT(cut.err, HasSubstr("is truncated"));
  WriteBytes(directory + "/g.pb", "nonsense");
  EXPECT_EQ(Inspect({"graph", directory + "/g.pb"}).code, 3);
}

TEST(InspectCommandTest, Graphs) {
  for (const char* name : {"graph.pb", "graph.pbtxt", "graph.meta"}) {
    const Outcome outcome = Inspect({"graph", std::string("graph/interchange/testdata/") + name});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("154 nodes"));
    EXPECT_THAT(outcome.out, HasSubstr("MatMul"));
    EXPECT_THAT(outcome.out, HasSubstr("importable"));
  }
  EXPECT_THAT(Inspect({"graph", "graph/interchange/testdata/graph.pb", "--nodes"}).out,
              HasSubstr("nodes:\n"));
}

TEST(InspectCommandTest, Events) {
  const Outcome outcome = Inspect({"events", TestData("events.out.tfevents.test")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("9 events"));
  EXPECT_THAT(outcome.out, HasSubstr("scalar"));
  EXPECT_THAT(outcome.out, HasSubstr("histogram"));
  EXPECT_EQ(Inspect({"events", "kernels/formats/testdata"}).code, 0);
}

TEST(InspectCommandTest, Records) {
  for (const char* name : {"records_plain.tfrecord", "records_gzip.tfrecord", "records_zlib.tfrecord"}) {
    const Outcome outcome = Inspect({"record", TestData(name)});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("5 records, 5.3 kB"));
  }
  const Outcome examples = Inspect({"record", TestData("examples.tfrecord"), "--records=1"});
  EXPECT_THAT(examples.out, HasSubstr("record 0:"));
  EXPECT_THAT(examples.out, HasSubstr("a tf.Example"));
  EXPECT_THAT(examples.out, HasSubstr("bytes[1] \"item0\""));
}

TEST(InspectCommandTest, WrongArguments) {
  EXPECT_THAT(Inspect({"chekpoint", "x"}).err, HasSubstr("did you mean 'checkpoint'?"));
  EXPECT_THAT(Inspect({}).err, HasSubstr("one of checkpoint, graph, events, record"));
  EXPECT_THAT(Inspect({"graph"}).err, HasSubstr("give one PATH, got 0"));
  EXPECT_EQ(Inspect({"--help"}).code, 0);
  for (const char* kind : {"checkpoint", "graph", "events", "record"}) {
    const Outcome outcome = Inspect({kind, "/nowhere/x"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("/nowhere/x"));
  }
}

}  // namespace
}  // namespace weir
