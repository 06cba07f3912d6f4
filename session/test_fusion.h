// What tests of fusion begin with: graphs of fed numbers, the ops that are left of them when nodes were
// fused, and that results are the same bits.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/gradients.h"
#include "graph/rewrite/fusion.h"
#include "graph/rewrite/prune.h"
#include "gtest/gtest.h"
#include "session/executor/program.h"
#include "session/test_session.h"

namespace weir {

inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kHalf, DType::kBfloat16};

template <typename T>
Tensor NumbersOf(const Shape& shape, int seed) {
  Tensor tensor(DTypeOf<T>, shape);
  uint32_t state = 12345u + 977u * static_cast<uint32_t>(seed);
  for (T& x : tensor.flat<T>()) {
    state = state * 1664525u + 1013904223u;
    x = T(static_cast<float>(static_cast<int32_t>(state >> 8) - (1 << 23)) / static_cast<float>(1 << 22));
  }
  return tensor;
}

// Numbers around zero that differ from one another; those of another seed differ.
inline Tensor Numbers(DType dtype, const Shape& shape, int seed) {
  return dtype == DType::kHalf       ? NumbersOf<Half>(shape, seed)
         : dtype == DType::kBfloat16 ? NumbersOf<Bfloat16>(shape, seed)
                                     : NumbersOf<float>(shape, seed);
}

template <typename T>
std::vector<float> FloatsOf(const Tensor& tensor) {
  std::vector<float> floats;
  for (const T& x : tensor.flat<T>()) floats.push_back(static_cast<float>(x));
  return floats;
}

inline std::vector<float> Floats(const Tensor& tensor) {
  return tensor.dtype() == DType::kHalf       ? FloatsOf<Half>(tensor)
         : tensor.dtype() == DType::kBfloat16 ? FloatsOf<Bfloat16>(tensor)
                                              : FloatsOf<float>(tensor);
}

// The distance from 1 to the next number.
inline float Epsilon(DType dtype) {
  return dtype == DType::kHalf ? 0x1p-10f : dtype == DType::kBfloat16 ? 0x1p-7f : 0x1p-23f;
}

inline bool HaveSameBits(const Tensor& a, const Tensor& b) {
  return a.is_valid() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.num_bytes() == 0 || std::memcmp(a.data(), b.data(), a.num_bytes()) == 0);
}

class FusionTest : public TestSession {
 protected:
  // A fed tensor of numbers.
  Output Input(const Shape& shape) { return Input(dtype_, shape); }
  Output Input(DType dtype, const Shape& shape) {
    const Output x = g_.AddOp("Placeholder", {}, {{"dtype", dtype}, {"shape", PartialShape(shape)}});
    feeds_.emplace_back(x, Numbers(dtype, shape, static_cast<int>(feeds_.size())));
    fed_.push_back(x);
    return x;
  }
  // One whose batch the graph does not know.
  Output InputOfUnknownBatch(const Shape& shape) {
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims[0] = PartialShape::kUnknownDim;
    const Output x =
        g_.AddOp("Placeholder", {}, {{"dtype", dtype_}, {"shape", PartialShape::FromDims(dims).value()}});
    feeds_.emplace_back(x, Numbers(dtype_, shape, static_cast<int>(feeds_.size())));
    fed_.push_back(x);
    return x;
  }
  Output Op(const char* op, std::vector<InputArg> inputs, AttrMap attrs = {}) {
    return g_.AddOp(op, std::move(inputs), std::move(attrs));
  }
  Output Layer(const char* activation, const Shape& x, const Shape& w, int64_t n, AttrMap attrs = {}) {
    return Op(activation,
              {Op("BiasAdd", {Op("MatMul", {Input(x), Input(w)}, std::move(attrs)), Input({n})})});
  }
  // The normalization of x; its outputs.
  Node* Normalize(Output x, AttrMap attrs = {}) {
    const AttrValue* format = attrs.find("data_format") == attrs.end() ? nullptr : &attrs["data_format"];
    const bool is_first = format != nullptr && *format == AttrValue("NCHW");
    const int64_t channels = x.shape().dim(is_first ? 1 : 3);
    const auto one_each = [&] { return Input(DType::kFloat32, {channels}); };
    const Output variance = Op("Abs", {one_each()});
    return g_.AddNode("FusedBatchNormV3", {x, one_each(), one_each(), one_each(), variance},
                      std::move(attrs));
  }
  std::vector<Output> Gradients(Output y, const std::vector<Output>& xs) {
    auto gradients = AddGradients(g_, {y}, xs);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    return gradients.ok() ? *gradients : std::vector<Output>(xs.size());
  }

  // The ops that run on data, after fusion.
  std::vector<std::string> Fused(const std::vector<Output>& fetches, const RewriteOptions& options = {}) {
    EXPECT_TRUE(g_.ok()) << g_.status();
    return OpsOf(*FusedGraph(fetches, options));
  }
  static std::vector<std::string> OpsOf(const Graph& graph) {
    std::vector<std::string> ops;
    for (const auto& node : graph.nodes()) {
      if (node->op_name() != "_Arg" && node->op_name() != "_Retval") ops.push_back(node->op_name());
    }
    return ops;
  }
  std::unique_ptr<Graph> FusedGraph(const std::vector<Output>& fetches, const RewriteOptions& options = {}) {
    auto graph = PruneToSignature(g_.graph(), fed_, fetches, {}).value();
    std::vector<DeviceName> devices;
    const auto listed = worker_.ListDevices(absl::Now() + absl::Seconds(10)).value();
    for (const DeviceAttributes& device : listed) devices.push_back(device.name);
    const auto has_kernel = [this](const Node& node, absl::string_view type) {
      return NeedsNoKernel(node) || runtime_->kernels().HasKernel(node, type);
    };
    EXPECT_TRUE(PlaceGraph(*graph, devices, has_kernel).ok());
    EXPECT_TRUE(FuseNodes(graph, has_kernel, options).ok());
    return graph;
  }

  std::vector<Tensor> Run(const std::vector<Output>& fetches, const RewriteOptions& rewrites) {
    SessionOptions options;
    options.rewrites = rewrites;
    auto session = Session::Create(g_.graph(), {&worker_}, runtime_->kernels(), options).value();
    auto results = session->Run(feeds_, {fetches.begin(), fetches.end()});
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *results : std::vector<Tensor>(fetches.size());
  }

  void ExpectSameBits(const std::vector<Output>& fetches) {
    const std::vector<Tensor> fused = Run(fetches, {}), plain = Run(fetches, {.is_enabled = false});
    for (size_t i = 0; i < fetches.size(); ++i) {
      EXPECT_TRUE(HaveSameBits(fused[i], plain[i]))
          << fetches[i].name() << " is " << fused[i].ToString() << " instead of " << plain[i].ToString();
    }
  }

  Feeds feeds_;
  std::vector<Output> fed_;
  DType dtype_ = DType::kFloat32;  // of inputs
};

}  // namespace weir
