// The update rules of optimizers, each from its formula.
#include <cmath>
#include <functional>
#include <map>

#include "absl/strings/match.h"
#include "ops/register_ops.h"
#include "tests/conformance/dtypes.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;

// The scalars of a call by name.
using Scalars = std::map<std::string, double>;
// One element: changes v, the values of the variables at that element, for a gradient of g.
using Formula = std::function<void(std::vector<double>& v, double g, Scalars& s, const Node& node)>;

// What every rule has: an element of each variable and one of the gradient at a time; a sparse rule takes the
// rows of the gradient in order.
reference::Reference Elementwise(Formula formula) {
  return [formula](reference::Call& call) {
    Scalars scalars;
    Array gradient, indices;
    bool is_sparse = false;
    call.outputs.clear();
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const std::string& name = call.node.op().inputs()[i].name;
      if (call.node.input_type(static_cast<int>(i)) == DType::kResource) {
        call.outputs.push_back(call.in(static_cast<int>(i)));
      } else if (name == "grad" || name == "delta") {
        gradient = call.inputs[i];
      } else if (name == "indices") {
        indices = call.inputs[i];
        is_sparse = true;
      } else {
        scalars[name] = call.inputs[i][0].real();
      }
    }
    for (int64_t i = 0; i < gradient.size(); ++i) {
      reference::Index at = gradient.IndexOf(i);
      if (is_sparse) at[0] = indices[at[0]].integer();
      std::vector<double> values;
      for (const Array& variable : call.outputs) values.push_back(variable.at(at).real());
      formula(values, gradient[i].real(), scalars, call.node);
      for (size_t k = 0; k < values.size(); ++k) call.outputs[k].at(at) = values[k];
    }
  };
}

double SignOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
// Of an average that forgets.
double Decayed(double average, double x, double decay) { return decay * average + (1 - decay) * x; }

void GradientDescent(std::vector<double>& v, double g, Scalars& s, const Node&) { v[0] -= s["alpha"] * g; }

void Momentum(std::vector<double>& v, double g, Scalars& s, const Node& node) {
  v[1] = v[1] * s["momentum"] + g;
  v[0] -= s["lr"] * (node.attr<bool>("use_nesterov") ? g + s["momentum"] * v[1] : v[1]);
}

void KerasMomentum(std::vector<double>& v, double g, Scalars& s, const Node& node) {
  v[1] = v[1] * s["momentum"] - s["lr"] * g;
  v[0] += node.attr<bool>("use_nesterov") ? s["momentum"] * v[1] - s["lr"] * g : v[1];
}

double RateOfAdam(Scalars& s) { return s["lr"] * std::sqrt(1 - s["beta2_power"]) / (1 - s["beta1_power"]); }

void Adam(std::vector<double>& v, double g, Scalars& s, const Node& node) {
  v[1] = Decayed(v[1], g, s["beta1"]);
  v[2] = Decayed(v[2], g * g, s["beta2"]);
  const double m = node.attr<bool>("use_nesterov") ? Decayed(v[1], g, s["beta1"]) : v[1];
  v[0] -= RateOfAdam(s) * m / (std::sqrt(v[2]) + s["epsilon"]);
}

void AdamWithAmsgrad(std::vector<double>& v, double g, Scalars& s, const Node&) {
  v[1] = Decayed(v[1], g, s["beta1"]);
  v[2] = Decayed(v[2], g * g, s["beta2"]);
  v[3] = std::max(v[3], v[2]);
  v[0] -= RateOfAdam(s) * v[1] / (std::sqrt(v[3]) + s["epsilon"]);
}

void AdaMax(std::vector<double>& v, double g, Scalars& s, const Node&) {
  v[1] = Decayed(v[1], g, s["beta1"]);
  v[2] = std::max(s["beta2"] * v[2], std::abs(g));
  v[0] -= s["lr"] / (1 - s["beta1_power"]) * v[1] / (v[2] + s["epsilon"]);
}

// The first version of the op has no epsilon.
void Adagrad(std::vector<double>& v, double g, Scalars& s, const Node& node) {
  if (node.attr<bool>("update_slots")) v[1] += g * g;
  v[0] -= s["lr"] * g / (std::sqrt(v[1]) + s["epsilon"]);
}

void AdagradDA(std::vector<double>& v, double g, Scalars& s, const Node&) {
  v[1] += g;
  v[2] += g * g;
  const double shrunk = SignOf(v[1]) * std::max(std::abs(v[1]) - s["l1"] * s["global_step"], 0.0);
  v[0] = -s["lr"] * shrunk / (std::sqrt(v[2]) + s["l2"] * s["global_step"] * s["lr"]);
}

void RMSProp(std::vector<double>& v, double g, Scalars& s, const Node&) {
  v[1] = Decayed(v[1], g * g, s["rho"]);
  v[2] = s["momentum"] * v[2] + s["lr"] * g / std::sqrt(v[1] + s["epsilon"]);
  v[0] -= v[2];
}

void CenteredRMSProp(std::vector<double>& v, double g, Scalars& s, const Node&) {
  v[1] = Decayed(v[1], g, s["rho"]);
  v[2] = Decayed(v[2], g * g, s["rho"]);
  v[3] = s["momentum"] * v[3] + s["lr"] * g / std::sqrt(v[2] - v[1] * v[1] + s["epsilon"]);
  v[0] -= v[3];
}

void Adadelta(std::vector<double>& v, double g, Scalars& s, const Node&) {
  v[1] = Decayed(v[1], g * g, s["rho"]);
  const double step = std::sqrt((v[2] + s["epsilon"]) / (v[1] + s["epsilon"])) * g;
  v[2] = Decayed(v[2], step * step, s["rho"]);
  v[0] -= s["lr"] * step;
}

// The paper's sigma is (n'^p - n^p) / lr. With multiply_linear_by_lr the linear slot is lr times the paper's.
void Ftrl(std::vector<double>& v, double g, Scalars& s, const Node& node) {
  const double power = -s["lr_power"], lr = s["lr"];
  // All of the formula has one more factor lr when the linear term has it.
  const bool is_multiplied = node.attr<bool>("multiply_linear_by_lr");
  const double factor = is_multiplied ? lr : 1, divisor = is_multiplied ? 1 : lr;
  const double before = std::pow(v[1], power) / divisor, after = std::pow(v[1] + g * g, power) / divisor;
  const double limit = s["l1"] * factor;
  const double z = v[2] + factor * (g + 2 * s["l2_shrinkage"] * v[0]) - (after - before) * v[0];
  v[0] = std::abs(z) <= limit ? 0 : (SignOf(z) * limit - z) / (after + 2 * s["l2"] * factor);
  v[1] += g * g;
  v[2] = z;
}

double Proximal(double stepped, double rate, Scalars& s) {
  const double shrunk = SignOf(stepped) * std::max(std::abs(stepped) - rate * s["l1"], 0.0);
  return shrunk / (1 + rate * s["l2"]);
}

void ProximalGradientDescent(std::vector<double>& v, double g, Scalars& s, const Node&) {
  v[0] = Proximal(v[0] - s["alpha"] * g, s["alpha"], s);
}

void ProximalAdagrad(std::vector<double>& v, double g, Scalars& s, const Node&) {
  v[1] += g * g;
  const double rate = s["lr"] / std::sqrt(v[1]);
  v[0] = Proximal(v[0] - rate * g, rate, s);
}

void AddSign(std::vector<double>& v, double g, Scalars& s, const Node&) {
  v[1] = Decayed(v[1], g, s["beta"]);
  v[0] -= s["lr"] * (s["alpha"] + s["sign_decay"] * SignOf(g) * SignOf(v[1])) * g;
}

void PowerSign(std::vector<double>& v, double g, Scalars& s, const Node&) {
  v[1] = Decayed(v[1], g, s["beta"]);
  v[0] -= s["lr"] * std::exp(s["logbase"] * s["sign_decay"] * SignOf(g) * SignOf(v[1])) * g;
}

double ScalarFor(const std::string& name) {
  static const auto* const values = new std::map<std::string, double>{
      {"alpha", 0.25},        {"lr", 0.125},         {"momentum", 0.75},  {"rho", 0.875},
      {"epsilon", 0.0625},    {"beta1", 0.875},      {"beta2", 0.75},     {"beta1_power", 0.5},
      {"beta2_power", 0.625}, {"beta", 0.75},        {"l1", 0.125},       {"l2", 0.25},
      {"lr_power", -0.5},     {"l2_shrinkage", 0.5}, {"logbase", 0.6875}, {"sign_decay", 0.9375},
      {"global_step", 3}};
  return values->at(name);
}

// A call of a rule: variables of that shape, positive slots, and the scalars above.
class Call {
 public:
  Call(const std::string& op, DType d, std::vector<int64_t> dims, std::vector<int32_t> indices = {}) {
    std::vector<int64_t> of_gradient = dims;
    if (absl::StrContains(op, "Sparse")) of_gradient[0] = static_cast<int64_t>(indices.size());
    for (const ArgDef& arg : StandardOps().Find(op)->inputs()) {
      const int seed = static_cast<int>(names_.size()) + 1;
      names_.push_back(arg.name);
      if (seed == 1) {
        inputs_.push_back(CaseInput::Variable(Sample(d, dims, -1, 1)));
      } else if (arg.dtype == DType::kResource) {
        // A mean square is larger than the square of the mean.
        inputs_.push_back(CaseInput::Variable(arg.name == "mg" ? Sample(d, dims, -0.25, 0.25, seed)
                                                               : Sample(d, dims, 0.25, 1, seed)));
      } else if (arg.name == "grad" || arg.name == "delta") {
        inputs_.push_back(Sample(d, of_gradient, -1, 1, seed));
      } else if (arg.name == "indices") {
        inputs_.push_back(Ints(indices));
      } else {
        inputs_.push_back(Make(arg.name == "global_step" ? DType::kInt64 : d, {}, {ScalarFor(arg.name)}));
      }
    }
  }

  const std::vector<CaseInput>& inputs() const { return inputs_; }
  int count_variables() const {
    int count = 0;
    for (const CaseInput& input : inputs_) count += input.is_variable ? 1 : 0;
    return count;
  }
  bool has(const std::string& name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }
  Call with(const std::string& name, Tensor value) const {
    Call changed = *this;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) changed.inputs_[i] = value;
    }
    return changed;
  }
  // For a hostile call.
  std::vector<CaseInput> with_handles() const {
    std::vector<CaseInput> inputs = inputs_;
    for (CaseInput& input : inputs) {
      if (input.is_variable) input = HandleOf(input.tensors[0]);
    }
    return inputs;
  }

 private:
  std::vector<std::string> names_;
  std::vector<CaseInput> inputs_;
};

void AddHostileCalls(OpRecord& record, const std::string& op) {
  const bool is_sparse = absl::StrContains(op, "Sparse");
  const Call call(op, DType::kFloat32, {4, 3}, {2, 0});
  const std::string gradient = call.has("delta") ? "delta" : "grad";
  const auto handles = call.with_handles();
  record.HostileHandles(call.inputs()).HostileHandles(call.inputs(), call.count_variables() - 1);
  const Tensor wrong = Sample(DType::kFloat32, {3, 4});
  record.Hostile(call.with(gradient, wrong).with_handles(), "the gradient is float[3,4]");
  for (const ArgDef& arg : StandardOps().Find(op)->inputs()) {
    if (arg.dtype == DType::kResource || arg.name == gradient || arg.name == "indices") continue;
    const Tensor matrix = arg.name == "global_step" ? Sample(DType::kInt64, {3, 4}) : wrong;
    record.Hostile(call.with(arg.name, matrix).with_handles(), arg.name + " must be a scalar");
  }
  if (call.count_variables() > 1) {
    std::vector<CaseInput> twice = handles, differ = handles;
    twice[1] = twice[0];
    differ[1] = HandleOf(wrong);
    record.Hostile(twice, "is both input 0 and input 1")
        .Hostile(differ, "but variable 'weights' is float[3,4]");
  }
  if (is_sparse) {
    record.Hostile(call.with("indices", Ints({0, 4})).with_handles(), "indices[1] = 4 is not in [0, 4)")
        .Hostile(call.with("indices", Ints({-1, 0})).with_handles(), "indices[0] = -1 is not in [0, 4)")
        .Hostile(call.with("indices", Ints({0})).with_handles(), "for 1 rows of variable 'weights'")
        .Hostile(call.with("indices", Tensor(DType::kInt32, {2, 0})).with_handles(),
                 "indices must be a vector");
  }
}

// Calls of one op of a rule.
void AddCalls(Suite& suite, const std::string& op, const Formula& formula,
              const std::vector<AttrMap>& attrs) {
  OpRecord& record = suite.Op(op).Reference(Elementwise(formula));
  for (const AttrMap& with : attrs) {
    for (DType d : kReals) record.Update(Call(op, d, {4, 3}, {2, 0}).inputs(), with);
    record.Update(Call(op, DType::kFloat32, {4, 3}, {2, 0, 2, 2}).inputs(), with);
  }
  record.Update(Call(op, DType::kFloat32, {37}, {36, 3}).inputs())
      .Update(Call(op, DType::kFloat64, {3, 0}, {1}).inputs())
      .Update(Call(op, DType::kFloat32, {3, 2}).inputs());
  // TensorFlow rounds to half at every step of a formula.
  record.Tolerance(1e-2).Update(Call(op, DType::kHalf, {2, 300}, {1}).inputs()).Tolerance(0);
  record.NoKernelFor("T", Join({kIntegers, kComplexes}), "no model is trained in these");
  AddHostileCalls(record, op);
}

void AddRule(Suite& suite, const std::string& name, const Formula& formula, bool has_sparse = true,
             const std::vector<AttrMap>& attrs = {{}}) {
  AddCalls(suite, "ResourceApply" + name, formula, attrs);
  if (has_sparse) AddCalls(suite, "ResourceSparseApply" + name, formula, attrs);
}

}  // namespace

void AddUpdateRulesRecords(Suite& suite) {
  constexpr bool kDenseOnly = false, kBoth = true;
  const auto flag = [](const char* name) { return std::vector<AttrMap>{{{name, false}}, {{name, true}}}; };
  AddRule(suite, "GradientDescent", GradientDescent, kDenseOnly);
  AddRule(suite, "Momentum", Momentum, kBoth, flag("use_nesterov"));
  AddRule(suite, "KerasMomentum", KerasMomentum, kBoth, flag("use_nesterov"));
  AddRule(suite, "Adam", Adam, kDenseOnly, flag("use_nesterov"));
  AddRule(suite, "AdamWithAmsgrad", AdamWithAmsgrad, kDenseOnly);
  AddRule(suite, "AdaMax", AdaMax, kDenseOnly);
  AddRule(suite, "Adagrad", Adagrad, kBoth, flag("update_slots"));
  AddRule(suite, "AdagradV2", Adagrad, kBoth, flag("update_slots"));
  AddRule(suite, "AdagradDA", AdagradDA);
  AddRule(suite, "RMSProp", RMSProp);
  AddRule(suite, "CenteredRMSProp", CenteredRMSProp);
  AddRule(suite, "Adadelta", Adadelta);
  AddRule(suite, "Ftrl", Ftrl, kBoth, flag("multiply_linear_by_lr"));
  AddRule(suite, "FtrlV2", Ftrl, kBoth, flag("multiply_linear_by_lr"));
  AddRule(suite, "ProximalGradientDescent", ProximalGradientDescent);
  AddRule(suite, "ProximalAdagrad", ProximalAdagrad);
  AddRule(suite, "AddSign", AddSign, kDenseOnly);
  AddRule(suite, "PowerSign", PowerSign, kDenseOnly);

  // What only Ftrl's scalars must satisfy, and its other power.
  for (const char* op :
       {"ResourceApplyFtrl", "ResourceSparseApplyFtrl", "ResourceApplyFtrlV2", "ResourceSparseApplyFtrlV2"}) {
    const Call call(op, DType::kFloat32, {4, 3}, {2, 0});
    const auto scalar = [](double value) { return Make(DType::kFloat32, {}, {value}); };
    OpRecord& record = suite.Op(op);
    record.Update(call.with("lr_power", scalar(-0.75)).inputs())
        .Update(call.with("lr_power", scalar(-0.75)).inputs(), {{"multiply_linear_by_lr", true}})
        .Update(call.with("lr_power", scalar(0)).inputs())
        .Update(call.with("lr", scalar(0)).inputs(), {{"multiply_linear_by_lr", true}})
        .Hostile(call.with("lr", scalar(0)).with_handles(), "lr must be positive, is 0")
        .Hostile(call.with("lr", scalar(-1)).with_handles(), "lr must be positive, is -1",
                 {{"multiply_linear_by_lr", true}})
        .Hostile(call.with("l1", scalar(-1)).with_handles(), "l1 must not be negative, is -1")
        .Hostile(call.with("l2", scalar(-1)).with_handles(), "l2 must not be negative, is -1")
        .Hostile(call.with("lr_power", scalar(std::nan(""))).with_handles(), "lr_power must not be positive")
        .Hostile(call.with("lr_power", scalar(1)).with_handles(), "lr_power must not be positive, is 1");
  }
}

}  // namespace weir::conformance
