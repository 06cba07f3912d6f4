#include "kernels/cpu/kernel_under_test.h"

#include "absl/strings/str_cat.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/cpu_device.h"

namespace weir {
namespace {

constexpr char kAnyPadding[] = "padding: {'SAME', 'VALID', 'EXPLICIT'}";
constexpr char kDataFormat[] = "data_format: string = 'NHWC'";

OpDef Schema(std::string name, std::vector<std::string> inputs, std::vector<std::string> outputs,
             std::vector<std::string> attrs) {
  OpDef def;
  def.name = std::move(name);
  def.summary = "For tests.";
  def.inputs = std::move(inputs);
  def.outputs = std::move(outputs);
  def.attrs = std::move(attrs);
  def.infer_shapes = UnknownShape;
  def.gradient = [](GradientContext&) { return absl::OkStatus(); };
  return def;
}

std::vector<OpDef> StateSchemas() {
  OpDef handle =
      Schema("VarHandleOp", {}, {"resource: resource"},
             {"container: string = ''", "shared_name: string = ''", "dtype: type", "shape: shape"});
  handle.infer_shapes = [](ShapeInference& s) -> absl::Status {
    s.set_output_resource(0, {s.attr<DType>("dtype"), s.attr<PartialShape>("shape")});
    return absl::OkStatus();
  };
  return {
      handle,
      Schema("ReadVariableOp", {"resource: resource"}, {"value: dtype"}, {"dtype: type"}),
      Schema("AssignVariableOp", {"resource: resource", "value: dtype"}, {},
             {"dtype: type", "validate_shape: bool = false"}),
      Schema("AssignAddVariableOp", {"resource: resource", "value: dtype"}, {}, {"dtype: type"}),
      Schema("AssignSubVariableOp", {"resource: resource", "value: dtype"}, {}, {"dtype: type"}),
      Schema("VarIsInitializedOp", {"resource: resource"}, {"is_initialized: bool"}, {}),
      Schema("DestroyResourceOp", {"resource: resource"}, {}, {"ignore_lookup_error: bool = true"}),
      Schema("ResourceApplyGradientDescent", {"var: resource", "alpha: T", "delta: T"}, {},
             {"T: type", "use_locking: bool = false"}),
      Schema("ResourceApplyMomentum", {"var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"},
             {}, {"T: type", "use_locking: bool = false", "use_nesterov: bool = false"}),
      Schema("ResourceApplyKerasMomentum",
             {"var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"}, {},
             {"T: type", "use_locking: bool = false", "use_nesterov: bool = false"}),
      Schema("ResourceApplyAdam",
             {"var: resource", "m: resource", "v: resource", "beta1_power: T", "beta2_power: T", "lr: T",
              "beta1: T", "beta2: T", "epsilon: T", "grad: T"},
             {}, {"T: type", "use_locking: bool = false", "use_nesterov: bool = false"}),
  };
}

std::vector<OpDef> NnSchemas() {
  return {
      Schema("MatMul", {"a: T", "b: T"}, {"product: T"},
             {"transpose_a: bool = false", "transpose_b: bool = false", "T: type"}),
      Schema("Relu", {"features: T"}, {"activations: T"}, {"T: type"}),
      Schema("ReluGrad", {"gradients: T", "features: T"}, {"backprops: T"}, {"T: type"}),
      Schema("BiasAdd", {"value: T", "bias: T"}, {"output: T"}, {"T: type", kDataFormat}),
      Schema("BiasAddGrad", {"out_backprop: T"}, {"output: T"}, {"T: type", kDataFormat}),
      Schema("Softmax", {"logits: T"}, {"softmax: T"}, {"T: type"}),
      Schema("LogSoftmax", {"logits: T"}, {"logsoftmax: T"}, {"T: type"}),
      Schema("SoftmaxCrossEntropyWithLogits", {"features: T", "labels: T"}, {"loss: T", "backprop: T"},
             {"T: type"}),
      Schema("SparseSoftmaxCrossEntropyWithLogits", {"features: T", "labels: Tlabels"},
             {"loss: T", "backprop: T"}, {"T: type", "Tlabels: type = int64"}),
      Schema("InTopKV2", {"predictions: float", "targets: T", "k: T"}, {"precision: bool"}, {"T: type"}),
  };
}

std::vector<OpDef> ConvSchemas() {
  const std::vector<std::string> conv = {"T: type",
                                         "strides: list(int)",
                                         "use_cudnn_on_gpu: bool = true",
                                         kAnyPadding,
                                         "explicit_paddings: list(int) = []",
                                         kDataFormat,
                                         "dilations: list(int) = [1, 1, 1, 1]"};
  const std::vector<std::string> pool = {
      "T: type",   "ksize: list(int)", "strides: list(int)",
      kAnyPadding, kDataFormat,        "explicit_paddings: list(int) = []"};
  return {
      Schema("Conv2D", {"input: T", "filter: T"}, {"output: T"}, conv),
      Schema("Conv2DBackpropInput", {"input_sizes: int32", "filter: T", "out_backprop: T"}, {"output: T"},
             conv),
      Schema("Conv2DBackpropFilter", {"input: T", "filter_sizes: int32", "out_backprop: T"}, {"output: T"},
             conv),
      Schema("MaxPool", {"input: T"}, {"output: T"}, pool),
      Schema("MaxPoolGrad", {"orig_input: T", "orig_output: T", "grad: T"}, {"output: T"}, pool),
      Schema("AvgPool", {"value: T"}, {"output: T"}, pool),
      Schema("AvgPoolGrad", {"orig_input_shape: int32", "grad: T"}, {"output: T"}, pool),
  };
}

std::vector<OpDef> OtherSchemas() {
  const std::vector<std::string> random = {"seed: int = 0", "seed2: int = 0", "dtype: type", "T: type"};
  return {
      Schema("RandomUniform", {"shape: T"}, {"output: dtype"}, random),
      Schema("RandomStandardNormal", {"shape: T"}, {"output: dtype"}, random),
      Schema("TruncatedNormal", {"shape: T"}, {"output: dtype"}, random),
      Schema("RandomUniformInt", {"shape: T", "minval: Tout", "maxval: Tout"}, {"output: Tout"},
             {"seed: int = 0", "seed2: int = 0", "Tout: type", "T: type"}),
      Schema("SaveV2",
             {"prefix: string", "tensor_names: string", "shape_and_slices: string", "tensors: dtypes"}, {},
             {"dtypes: list(type)"}),
      Schema("RestoreV2", {"prefix: string", "tensor_names: string", "shape_and_slices: string"},
             {"tensors: dtypes"}, {"dtypes: list(type)"}),
      Schema("ScalarSummary", {"tags: string", "values: T"}, {"summary: string"}, {"T: type"}),
      Schema("HistogramSummary", {"tag: string", "values: T"}, {"summary: string"}, {"T: type"}),
      Schema("MergeSummary", {"inputs: N * string"}, {"summary: string"}, {"N: int"}),
      Schema("CheckNumerics", {"tensor: T"}, {"output: T"}, {"T: type", "message: string"}),
      Schema("Assert", {"condition: bool", "data: T"}, {}, {"T: list(type)", "summarize: int = 3"}),
      Schema("Placeholder", {}, {"output: dtype"}, {"dtype: type"}),
  };
}

}  // namespace

TestHost::TestHost(std::initializer_list<Family> families)
    : threads_(std::make_unique<ThreadPool>(2)), device_(MakeCpuDevice("localhost", 0, 0, *threads_)) {
  for (const auto& schemas : {StateSchemas(), NnSchemas(), ConvSchemas(), OtherSchemas()}) {
    for (const OpDef& schema : schemas) {
      const absl::Status status = ops_.Register(schema);
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  for (Family family : families) family(kernels_, "CPU");
}

TestHost::~TestHost() = default;

KernelUnderTest::KernelUnderTest(TestHost& host, const std::string& op, std::vector<DType> inputs,
                                 AttrMap attrs, const std::string& name, int list_from)
    : host_(host), graph_(std::make_unique<Graph>(host.ops())) {
  NodeSpec spec;
  spec.op = op;
  spec.name = name;
  spec.attrs = std::move(attrs);
  std::vector<Output> list;
  for (size_t i = 0; i < inputs.size(); ++i) {
    NodeSpec source;
    source.op = "Placeholder";
    source.name = absl::StrCat("input", i);
    source.attrs = {{"dtype", inputs[i]}};
    const Output output = graph_->AddNode(std::move(source)).value()->output(0);
    if (list_from < 0 || static_cast<int>(i) < list_from) {
      spec.inputs.push_back(output);
    } else {
      list.push_back(output);
    }
  }
  if (list_from >= 0) spec.inputs.push_back(std::move(list));
  absl::StatusOr<Node*> node = graph_->AddNode(std::move(spec));
  EXPECT_TRUE(node.ok()) << node.status();
  if (!node.ok()) {
    status_ = node.status();
    return;
  }
  node_ = *node;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = host.kernels().Create(*node_, host.device());
  status_ = kernel.status();
  if (kernel.ok()) kernel_ = *std::move(kernel);
}

KernelUnderTest::~KernelUnderTest() = default;

absl::StatusOr<std::vector<Tensor>> KernelUnderTest::Run(std::vector<Tensor> inputs) {
  WEIR_RETURN_IF_ERROR(status_);
  const int num_inputs = node_->num_inputs();
  EXPECT_EQ(static_cast<int>(inputs.size()), num_inputs);
  std::vector<int32_t> input_slots(num_inputs);
  for (int i = 0; i < num_inputs; ++i) {
    EXPECT_EQ(inputs[i].dtype(), node_->input_type(i)) << "input " << i;
    input_slots[i] = i;
  }
  const auto last_use = std::make_unique<bool[]>(num_inputs + 1);
  std::fill_n(last_use.get(), num_inputs, true);
  std::vector<Tensor> slots = std::move(inputs);
  slots.resize(num_inputs + node_->num_outputs());
  Cancellation cancellation;
  StepContext step;
  step.cancellation = &cancellation;
  KernelContext context(step, host_.device(), slots.data(), input_slots.data(), last_use.get(), num_inputs,
                        num_inputs, node_->output_types().data(), node_->num_outputs());
  WEIR_RETURN_IF_ERROR(kernel_->Compute(context));
  return std::vector<Tensor>(slots.begin() + num_inputs, slots.end());
}

Tensor KernelUnderTest::Get(std::vector<Tensor> inputs) {
  absl::StatusOr<std::vector<Tensor>> outputs = Run(std::move(inputs));
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() && !outputs->empty() ? (*outputs)[0] : Tensor();
}

}  // namespace weir
