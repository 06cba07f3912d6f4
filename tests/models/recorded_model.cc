#include "tests/models/recorded_model.h"

#include <cmath>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "ops/variable.h"

namespace weir {
namespace {

const nlohmann::json& Entries() {
  static const auto* const entries = [] {
    std::ifstream file("tests/models/recorded.json");
    return new nlohmann::json(nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false));
  }();
  return *entries;
}

template <typename T>
Tensor Filled(const Shape& shape, const nlohmann::json& values) {
  Tensor tensor(DTypeOf<T>, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    // Floats that are no numbers are written as "nan", "inf" and "-inf".
    tensor.flat<T>()[i] =
        values[i].is_string() ? static_cast<T>(std::stod(values[i].get<std::string>())) : values[i].get<T>();
  }
  return tensor;
}

double ElementOf(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return tensor.flat<float>()[i];
    case DType::kInt64:
      return static_cast<double>(tensor.flat<int64_t>()[i]);
    case DType::kInt32:
      return tensor.flat<int32_t>()[i];
    case DType::kBool:
      return tensor.flat<bool>()[i] ? 1 : 0;
    default:
      ADD_FAILURE() << "no number in " << tensor.ToString();
      return 0;
  }
}

}  // namespace

Tensor Recorded(const std::string& name) {
  const auto& entries = Entries();
  if (!entries.is_object() || !entries.contains(name) || !entries[name].is_object()) {
    ADD_FAILURE() << "recorded.json has no tensor " << name;
    return Tensor::Scalar(0.0f);
  }
  const auto& entry = entries[name];
  const Shape shape(entry["shape"].get<std::vector<int64_t>>());
  const auto dtype = entry["dtype"].get<std::string>();
  if (dtype == "int64") return Filled<int64_t>(shape, entry["values"]);
  if (dtype == "int32") return Filled<int32_t>(shape, entry["values"]);
  if (dtype == "bool") return Filled<bool>(shape, entry["values"]);
  EXPECT_EQ(dtype, "float32") << name;
  return Filled<float>(shape, entry["values"]);
}

std::vector<std::string> RecordedStrings(const std::string& name) {
  const auto& entries = Entries();
  if (entries.is_object() && entries.contains(name) && entries[name].is_array()) {
    return entries[name].get<std::vector<std::string>>();
  }
  ADD_FAILURE() << "recorded.json has no list " << name;
  return {};
}

Tensor Pattern(const Shape& shape, int seed) {
  Tensor tensor(DType::kFloat32, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.flat<float>()[i] = static_cast<float>((i * (2 * seed + 7) + seed) % 17 - 8) / 8;
  }
  return tensor;
}

void ExpectNear(const Tensor& wanted, const Tensor& found, const std::string& what, double tolerance) {
  ASSERT_EQ(wanted.shape().ToString(), found.shape().ToString()) << what;
  ASSERT_EQ(wanted.dtype(), found.dtype()) << what;
  for (int64_t i = 0; i < wanted.num_elements(); ++i) {
    const double a = ElementOf(wanted, i), b = ElementOf(found, i);
    if ((std::isnan(a) && std::isnan(b)) || a == b) continue;
    EXPECT_LE(std::abs(a - b), tolerance * (1 + std::abs(a)))
        << what << ", element " << i << ": wanted " << wanted.ToString() << ", found " << found.ToString();
  }
}

Session& RecordedModelTest::StartedSession() {
  if (session_ == nullptr) {
    session_ = Session::Create(g_.graph(), {&worker_}, runtime_->kernels()).value();
  }
  return *session_;
}

std::vector<Tensor> RecordedModelTest::Run(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                                           const std::vector<TargetRef>& targets) {
  EXPECT_TRUE(g_.ok()) << g_.status();
  if (!g_.ok()) return std::vector<Tensor>(fetches.size(), Tensor::Scalar(0.0f));
  auto results = StartedSession().Run(feeds, fetches, targets);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? *std::move(results) : std::vector<Tensor>(fetches.size(), Tensor::Scalar(0.0f));
}

Tensor RecordedModelTest::Run(Output fetch, const Feeds& feeds) { return Run(feeds, {TensorRef(fetch)})[0]; }

absl::Status RecordedModelTest::RunStatus(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                                          const std::vector<TargetRef>& targets) {
  if (!g_.ok()) return g_.status();
  return StartedSession().Run(feeds, fetches, targets).status();
}

void RecordedModelTest::Initialize() {
  Node* const init = InitializeVariables(g_);
  if (init != nullptr) Run({}, {}, {TargetRef(init)});
}

void RecordedModelTest::Assign(const std::string& variable, const Tensor& value) {
  // The variable's own initializer with another value.
  for (const VariableDef& def : g_.graph().variables()) {
    if (def.variable_name != variable) continue;
    Run({{def.initial_value_name, value}}, {}, {TargetRef(def.initializer_name)});
    return;
  }
  ADD_FAILURE() << "there is no variable " << variable;
}

void RecordedModelTest::ExpectRecorded(const std::string& name, Output found, const Feeds& feeds) {
  ExpectNear(Recorded(name), Run(found, feeds), name);
}

void RecordedModelTest::ExpectError(absl::string_view words) {
  EXPECT_TRUE(absl::StrContains(g_.status().message(), words)) << g_.status();
}

}  // namespace weir
