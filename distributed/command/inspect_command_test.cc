#include "distributed/command/inspect_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "distributed/command/name_filter.h"
#include "distributed/command/scalar_plot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/event_file.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

// A terminal obeys control characters, and the names come from the file.
TEST(InspectCommandTest, NamesDoNotSteerTheTerminal) {
  const std::string prefix = NewTestDirectory() + "/m";
  const auto writer = BundleWriter::Create(prefix).value();
  ASSERT_TRUE(writer->Add("a\x1b[2Jb\x7f", Tensor::Scalar(1.0f)).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_THAT(Inspect({"checkpoint", prefix}).out, HasSubstr("  a\\x1b[2Jb\\x7f "));
  const Outcome missing = Inspect({"checkpoint", prefix, "--tensor=\x1b[1m"});
  EXPECT_THAT(missing.err, HasSubstr("no tensor '\\x1b[1m'"));
  EXPECT_THAT(missing.err, Not(HasSubstr("\x1b")));
}

TEST(InspectCommandTest, NamesForgeNoLines) {
  const std::string prefix = NewTestDirectory() + "/m";
  const auto writer = BundleWriter::Create(prefix).value();
  ASSERT_TRUE(writer->Add("a\ntotal: 9 elements", Tensor::Scalar(1.0f)).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const Outcome outcome = Inspect({"checkpoint", prefix});
  EXPECT_THAT(outcome.out, HasSubstr("  a\\ntotal: 9 elements  float[]"));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3) << outcome.out;
  const Outcome missing = Inspect({"checkpoint", prefix, "--tensor=b\nweir inspect: all is well"});
  EXPECT_EQ(std::count(missing.err.begin(), missing.err.end(), '\n'), 1) << missing.err;
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

TEST(InspectCommandTest, OneTensor) {
  const Outcome outcome = Inspect({"checkpoint", TestData("single"), "--tensor=big", "--values=3"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("big: float[200,100], 20,000 elements\n"));
  EXPECT_THAT(outcome.out, HasSubstr("least "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("int32")));
  const Outcome missing = Inspect({"checkpoint", TestData("single"), "--tensor=bigg"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("bigg"));
  EXPECT_THAT(missing.err, HasSubstr("big"));
}

TEST(InspectCommandTest, StatisticsCountWhatIsNoNumber) {
  const std::string directory = NewTestDirectory();
  auto writer = BundleWriter::Create(directory + "/m").value();
  ASSERT_TRUE(writer->Add("w", Tensor::Vector<float>({1, NAN, -3, INFINITY, 5})).ok());
  ASSERT_TRUE(writer->Add("s", Tensor::Scalar("text")).ok());
  ASSERT_TRUE(writer->Add("none", Tensor(DType::kFloat32, Shape({0}))).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const std::string out = Inspect({"checkpoint", directory, "--tensor=w"}).out;
  EXPECT_THAT(out, HasSubstr("least -3, greatest 5, mean 1\n"));
  EXPECT_THAT(out, HasSubstr("1 NaN\n1 infinite\n"));
  EXPECT_THAT(Inspect({"checkpoint", directory, "--tensor=s"}).out, HasSubstr("text"));
  EXPECT_EQ(Inspect({"checkpoint", directory, "--tensor=none"}).code, 0);
}

TEST(InspectCommandTest, ATensorIsFoundByItsName) {
  const std::string out = Inspect({"checkpoint", TestData("single"), "--filter=b?g"}).out;
  EXPECT_THAT(out, HasSubstr("big  float[200,100]"));
  EXPECT_THAT(out, HasSubstr("1 tensor with names like 'b?g'; total: 20,000 elements"));
}

TEST(InspectCommandTest, AFolderWithOneCheckpointNeedsNoStateFile) {
  const std::string directory = NewTestDirectory();
  for (const char* suffix : {".index", ".data-00000-of-00001"}) {
    WriteBytes(directory + "/m" + suffix, ReadBytes(TestData(std::string("single/model-42") + suffix)));
  }
  EXPECT_EQ(Inspect({"checkpoint", directory}).code, 0);
  WriteBytes(directory + "/n.index", "");
  const Outcome two = Inspect({"checkpoint", directory});
  EXPECT_EQ(two.code, 1);
  EXPECT_THAT(two.err, HasSubstr("2 checkpoints: say which one"));
  EXPECT_THAT(two.err, HasSubstr(directory + "/n"));
}

// What is named `checkpoint` is there, but is no file that can be read.
TEST(InspectCommandTest, WhatIsInThePlaceOfACheckpointFileIsNamed) {
  for (const auto& [target, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "/checkpoint: Is a directory"},
           {"/dev/zero", "/checkpoint: it is a device"},
           {"checkpoint", "/checkpoint: Too many levels of symbolic links"}}) {
    const std::string directory = NewTestDirectory(), file = directory + "/checkpoint";
    WriteBytes(directory + "/m.index", "");
    ASSERT_EQ(target.empty() ? mkdir(file.c_str(), 0700) : symlink(target.c_str(), file.c_str()), 0);
    const Outcome outcome = Inspect({"checkpoint", directory});
    EXPECT_EQ(outcome.code, 1) << target;
    EXPECT_THAT(outcome.err, HasSubstr(words)) << target;
  }
}

TEST(InspectCommandTest, AFolderIsNoGraph) {
  const std::string directory = NewTestDirectory();
  const Outcome outcome = Inspect({"graph", directory});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr(directory + " is a folder: name a file in it, a GraphDef (.pb, .pbtxt)"));
}

TEST(InspectCommandTest, GraphsAreDrawn) {
  const std::string directory = NewTestDirectory();
  const Outcome outcome =
      Inspect({"graph", "graph/interchange/testdata/graph.pb", "--dot=" + directory + "/g.dot", "--svg",
               directory + "/g.svg", "--depth=9"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("drawn: 154 nodes in " + directory + "/g.dot and " + directory + "/g.svg"));
  EXPECT_THAT(ReadBytes(directory + "/g.dot"), HasSubstr("MatMul"));
  EXPECT_THAT(ReadBytes(directory + "/g.svg"), HasSubstr("</svg>"));
  EXPECT_THAT(Inspect({"graph", "graph/interchange/testdata/graph.pb", "--svg=" + directory + "/g.svg"}).out,
              HasSubstr("boxes (--depth shows more)"));
  EXPECT_EQ(Inspect({"graph", "graph/interchange/testdata/graph.pb", "--svg=/nowhere/g.svg"}).code, 1);
}

void WriteScalars(const std::string& directory, int64_t first_step, int64_t last_step, double value) {
  auto writer = EventWriter::Create(directory).value();
  for (int64_t step = first_step; step <= last_step; ++step) {
    ASSERT_TRUE(writer->AddScalar(step, "loss", value / step).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
}

TEST(InspectCommandTest, CurvesGoOnInTheNextFile) {
  const std::string directory = NewTestDirectory();
  WriteScalars(directory, 1, 20, 100);
  WriteScalars(directory, 11, 40, 200);
  const Outcome outcome =
      Inspect({"events", directory, "--plot", "--svg=" + directory + "/c.svg", "--filter=lo*"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nloss\n       100 |*"));
  EXPECT_THAT(outcome.out, HasSubstr("step  1 "));
  EXPECT_THAT(outcome.out, HasSubstr(" 40\n"));
  EXPECT_THAT(ReadBytes(directory + "/c.svg"), HasSubstr("<polyline"));
  const Outcome none = Inspect({"events", directory, "--plot", "--filter=accuracy"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("no scalars with tags like accuracy"));
}

TEST(ScalarCurveTest, KeepsItsShapeInBoundedMemory) {
  ScalarCurve curve("c");
  for (int step = 0; step < 1000000; ++step) curve.Add(step, step);
  EXPECT_LE(curve.points().size(), ScalarCurve::kMaxPoints);
  EXPECT_GE(curve.points().size(), ScalarCurve::kMaxPoints / 4);
  EXPECT_EQ(curve.points().front(), std::make_pair(int64_t{0}, 0.0));
  EXPECT_EQ(curve.points().back(), std::make_pair(int64_t{999999}, 999999.0));
}

TEST(ScalarCurveTest, WhatIsRunAgainReplacesWhatWasThere) {
  ScalarCurve curve("c");
  for (const int step : {1, 2, 3, 2, 4}) curve.Add(step, 10.0 * step);
  curve.Add(5, NAN);
  std::vector<int64_t> steps;
  for (const auto& [step, value] : curve.points()) steps.push_back(step);
  EXPECT_THAT(steps, ElementsAre(1, 2, 4));
  EXPECT_EQ(curve.num_unusable(), 1);
}

TEST(ScalarCurveTest, ExtremesArePlotted) {
  ScalarCurve curve("c");
  EXPECT_THAT(PlotInText(curve), HasSubstr("nothing to draw"));
  curve.Add(3, 1.5);
  EXPECT_THAT(PlotInText(curve), HasSubstr("*"));
  curve.Add(std::numeric_limits<int64_t>::max(), std::numeric_limits<double>::max());
  curve.Add(std::numeric_limits<int64_t>::max(), std::numeric_limits<double>::lowest());
  EXPECT_THAT(PlotInText(curve, 1, 1), HasSubstr("*"));
  EXPECT_THAT(PlotInSvg({curve}, "<"), HasSubstr("&lt;"));
}

TEST(NameFilterTest, Patterns) {
  EXPECT_TRUE(NameFilter("").Matches(""));
  EXPECT_TRUE(NameFilter("").Matches("anything"));
  EXPECT_TRUE(NameFilter("ense").Matches("dense/kernel"));
  EXPECT_FALSE(NameFilter("dense?").Matches("dense"));
  EXPECT_TRUE(NameFilter("*/k*l").Matches("a/b/kernel"));
  EXPECT_FALSE(NameFilter("*/k*l").Matches("a/b/kernels"));
  EXPECT_FALSE(NameFilter(std::string(1000, '*') + "b").Matches(std::string(100000, 'a')));
}

TEST(InspectCommandTest, WrongArguments) {
  EXPECT_THAT(Inspect({"chekpoint", "x"}).err, HasSubstr("did you mean 'checkpoint'?"));
  EXPECT_THAT(Inspect({}).err,
              HasSubstr("say what to inspect (one of checkpoint, graph, model, events, record)"));
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
