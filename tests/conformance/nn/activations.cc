// Activations and their gradients.
#include <cmath>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;

const std::vector<DType> kSigned =
    Join({kReals, {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}});
const std::vector<DType> kUnsigned = {DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64};

// Gradients of functions: calls of equal shapes, and shapes that do not fit.
void AddGrad(Suite& suite, const std::string& op, const std::vector<DType>& dtypes,
             std::function<double(double, double)> f) {
  OpRecord& record = suite.Op(op).Reference(EachRealPair(f));
  for (DType d : dtypes) {
    const double low = IsUnsigned(d) ? 0 : -3;
    record.Call({Sample(d, {37}, low, 3, 3), Sample(d, {37}, low, 8, 4)});
  }
  record.Call({Sample(dtypes.front(), {2, 3}, -3, 3, 3), Sample(dtypes.front(), {2, 3}, -3, 3, 4)});
  record.Call({Sample(dtypes.front(), {0, 2}), Sample(dtypes.front(), {0, 2})});
  record.Hostile({Sample(DType::kFloat32, {2, 3}), Sample(DType::kFloat32, {3, 2})}, "[2,3]");
}

}  // namespace

void AddActivationsRecords(Suite& suite) {
  suite.Op("Relu")
      .Reference(EachReal([](double x) { return x < 0 ? 0 : x; }))
      .Unary(kSigned, -3, 3)
      .Unary(kUnsigned, 0, 9)
      .Extremes({DType::kFloat32, DType::kFloat64})
      .CannotFail();
  suite.Op("Relu6")
      .Reference(EachReal([](double x) { return x < 0   ? 0
                                                : x > 6 ? 6
                                                        : x; }))
      .Unary(kSigned, -3, 9)
      .Unary(kUnsigned, 0, 9)
      .Extremes({DType::kFloat32, DType::kFloat64})
      .CannotFail();
  suite.Op("Elu")
      .Reference(EachReal([](double x) { return x < 0 ? std::expm1(x) : x; }))
      .Unary(kReals, -3, 3)
      .Extremes({DType::kFloat32, DType::kFloat64})
      .CannotFail();
  suite.Op("Selu")
      .Reference(EachReal([](double x) { return kSeluScale * (x < 0 ? kSeluAlpha * std::expm1(x) : x); }))
      .Unary(kReals, -3, 3)
      .Extremes({DType::kFloat32, DType::kFloat64})
      .CannotFail();
  suite.Op("Softplus")
      .Reference(EachReal([](double x) { return x > 700 ? x : std::log1p(std::exp(x)); }))
      .Unary(kReals, -3, 3)
      .Extremes({DType::kFloat32, DType::kFloat64})
      .CannotFail();
  suite.Op("Softsign")
      .Reference(EachReal([](double x) { return x / (1 + std::abs(x)); }))
      .Unary(kReals, -3, 3)
      .Extremes({DType::kFloat32, DType::kFloat64})
      .CannotFail();

  const auto leak = [](double alpha) {
    return
        [alpha](reference::Call& call) { EachReal([=](double x) { return x > 0 ? x : alpha * x; })(call); };
  };
  suite.Op("LeakyRelu")
      .Reference([=](reference::Call& call) { leak(call.node.attr<float>("alpha"))(call); })
      .Unary(kReals, -3, 3)
      .Call({Sample(DType::kFloat32, {19})}, {{"alpha", 1.5f}})
      .Extremes({DType::kFloat32, DType::kFloat64})
      .CannotFail();
  suite.Op("LeakyReluGrad")
      .Reference([](reference::Call& call) {
        const double alpha = call.node.attr<float>("alpha");
        EachRealPair([=](double dy, double x) { return x > 0 ? dy : alpha * dy; })(call);
      })
      .Call({Sample(DType::kFloat32, {19}, -1, 1, 3), Sample(DType::kFloat32, {19})}, {{"alpha", 0.3f}})
      .Call({Sample(DType::kFloat32, {0, 2}), Sample(DType::kFloat32, {0, 2})})
      .Hostile({Sample(DType::kFloat32, {2, 3}), Sample(DType::kFloat32, {3, 2})}, "[2,3]");
  for (DType d : kReals) {
    suite.Op("LeakyReluGrad").Call({Sample(d, {37}, -1, 1, 3), Sample(d, {37}, -2, 2, 4)});
  }

  AddGrad(suite, "ReluGrad", kOrdered, [](double dy, double x) { return dy * (x > 0); });
  for (DType d : kReals) {
    suite.Op("Relu").Call({Sample(d, {37})});
    suite.Op("ReluGrad").Call({Sample(d, {37}, -1, 1, 3), Sample(d, {37})});
  }
  suite.Op("Relu").Call({Sample(DType::kInt32, {2, 3})});
  suite.Op("ReluGrad")
      .Hostile({Sample(DType::kFloat32, {2, 3}), Sample(DType::kFloat32, {3, 2})},
               "gradients is [2,3] but features is [3,2]");
  AddGrad(suite, "Relu6Grad", kOrdered, [](double dy, double x) { return dy * (x > 0 && x < 6); });
  // A gradient that is no number shows, also where the unit is off.
  for (const char* op : {"ReluGrad", "Relu6Grad"}) {
    for (DType d : {DType::kFloat32, DType::kFloat64}) {
      const Tensor extremes = ExtremeNumbers(d);
      for (const double at : {-2.0, 2.0, 8.0}) {
        suite.Op(op).Call({.inputs = {extremes, Sample(d, {extremes.num_elements()}, at - 1, at + 1)},
                           .check_gradient = false,
                           .label = "extremes"});
      }
    }
  }
  AddGrad(suite, "EluGrad", kReals, [](double dy, double y) { return y < 0 ? dy * (y + 1) : dy; });
  AddGrad(suite, "SeluGrad", kReals,
          [](double dy, double y) { return y < 0 ? dy * (y + kSeluScale * kSeluAlpha) : dy * kSeluScale; });
  AddGrad(suite, "SoftplusGrad", kReals, [](double dy, double x) { return dy / (1 + std::exp(-x)); });
  AddGrad(suite, "SoftsignGrad", kReals,
          [](double dy, double x) { return dy / ((1 + std::abs(x)) * (1 + std::abs(x))); });
}

}  // namespace weir::conformance
