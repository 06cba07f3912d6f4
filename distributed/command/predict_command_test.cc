#include "distributed/command/predict_command.h"

#include <limits>
#include <sstream>
#include <string>

#include "distributed/command/inspect_command.h"
#include "distributed/command/json_tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/test_files.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/monitored/saved_model.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Tensor> Parsed(const std::string& text, DType dtype) {
  return TensorFromJson(ParseJson("text", text).value(), dtype);
}

TEST(JsonTensorTest, TensorsGoRound) {
  for (const Tensor& tensor :
       {Tensor::Scalar(1.5f), Tensor::From<double>({2, 1}, {0.1, -3}), Tensor::Vector<Half>({Half(0.5f)}),
        Tensor::Vector<int8_t>({-128, 127}), Tensor::Vector<int64_t>({std::numeric_limits<int64_t>::min()}),
        Tensor::Vector<uint64_t>({std::numeric_limits<uint64_t>::max()}), Tensor::Vector<bool>({true, false}),
        Tensor::Vector<std::string>({"a", "\xc3\xa4"}), Tensor(DType::kFloat32, Shape({2, 0}))}) {
    const auto json = JsonFromTensor(tensor);
    ASSERT_TRUE(json.ok()) << json.status();
    const auto back = TensorFromJson(*json, tensor.dtype());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->ToString(), tensor.ToString());
  }
  EXPECT_EQ(Parsed("[[1, 2]]", DType::kInvalid)->ToString(), "float[1,2] {1, 2}");
  EXPECT_EQ(Parsed("\"a\"", DType::kInvalid)->dtype(), DType::kString);
}

TEST(JsonTensorTest, WhatJsonLacksIsText) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(
      JsonFromTensor(Tensor::Vector<float>({infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}))
          ->dump(),
      R"(["inf","-inf","nan"])");
  EXPECT_EQ(JsonFromTensor(Tensor::Scalar("\xff"))->dump(), R"("\\xff")");
  EXPECT_EQ(JsonFromTensor(Tensor::Vector<std::complex<float>>({{1, 2}})).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(JsonTensorTest, ValuesThatDoNotFitAreRefused) {
  for (const auto& [text, dtype] : std::vector<std::pair<std::string, DType>>{
           {"[1, \"2\"]", DType::kFloat32},
           {"[1.5]", DType::kInt32},
           {"[300]", DType::kInt8},
           {"[-1]", DType::kUint8},
           {"[-9223372036854775809]", DType::kInt64},
           {"[18446744073709551615]", DType::kInt64},
           {"[1]", DType::kBool},
           {"[1]", DType::kString},
           {"null", DType::kFloat32},
           {"{\"a\": 1}", DType::kFloat32},
           {"[[1], 2]", DType::kFloat32},
           {"[[1, 2], [3]]", DType::kFloat32},
           {"[[], [1]]", DType::kFloat32},
       }) {
    EXPECT_EQ(Parsed(text, dtype).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

struct Outcome {
  std::string out;
  std::string error;
};

Outcome Predict(const std::vector<std::string>& args) {
  std::stringstream out;
  const absl::StatusOr<int> code = RunPredict(args, out);
  return {out.str(), std::string(code.status().message())};
}

// y = x * w, with w = 3.
std::string Model() {
  const std::string directory = NewTestDirectory() + "/model";
  GraphBuilder g(StandardOps());
  const Output x = Placeholder(g, DType::kFloat32, {-1}, {.name = "x"});
  const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(3.0f));
  const Output y = Mul(g, x, w.value, {.name = "y"});
  Node* const init = InitializeVariables(g);
  const auto saver = Saver::Build(g).value();
  const auto runtime = Runtime::Create().value();
  LocalWorker worker(*runtime, runtime->task());
  const auto session = Session::Create(g.graph(), {&worker}, runtime->kernels()).value();
  EXPECT_TRUE(session->Run({}, {}, {init}).ok());
  const absl::Status written =
      WriteSavedModel(directory, *session, saver.get(),
                      {.signatures = {{"serving_default", SignatureOf({{"x", x}}, {{"y", y}})}}});
  EXPECT_TRUE(written.ok()) << written;
  return directory;
}

TEST(PredictCommandTest, CallsASignature) {
  const std::string model = Model();
  const std::string inputs = R"({"x": [1, 2]})";
  const Outcome outcome = Predict({model, "--inputs=" + inputs});
  EXPECT_EQ(outcome.out, "{\"y\":[3.0,6.0]}\n") << outcome.error;
  WriteBytes(model + ".json", inputs);
  EXPECT_EQ(Predict({model, "--inputs_file=" + model + ".json"}).out, "{\"y\":[3.0,6.0]}\n");
  std::stringstream out, err;
  EXPECT_EQ(RunInspect({"model", model}, out, err).value(), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("signature serving_default (tensorflow/serving/predict):\n"
                                   "  input   x  float[?]  x:0\n"
                                   "  output  y  float[?]  y:0\n"));
  EXPECT_THAT(out.str(), HasSubstr("every checksum is right"));
}

TEST(PredictCommandTest, MistakesAreNamed) {
  const std::string model = Model();
  EXPECT_THAT(Predict({}).error, HasSubstr("weir predict: give one MODEL, got 0"));
  EXPECT_THAT(Predict({model, "--inputs={"}).error, HasSubstr("weir predict: --inputs"));
  EXPECT_THAT(Predict({model, "--inputs=1"}).error,
              HasSubstr("must be an object with a value for each input"));
  EXPECT_THAT(Predict({model, "--inputs={}", "--inputs_file=/x"}).error,
              HasSubstr("give one of --inputs and --inputs_file"));
  EXPECT_THAT(Predict({model, R"(--inputs={"x": ["1"]})"}).error,
              HasSubstr("input 'x': '\"1\"' is no float"));
  EXPECT_THAT(Predict({model, "--tags="}).error,
              HasSubstr("no MetaGraphDef has the tags []; there are 1: [serve]"));
  EXPECT_THAT(Predict({model + "/none"}).error, HasSubstr("/none/saved_model.pb"));
}

}  // namespace
}  // namespace weir
