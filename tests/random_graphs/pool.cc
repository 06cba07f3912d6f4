#include "tests/random_graphs/pool.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/random_graphs/interpreter.h"

namespace weir::random_graphs {
namespace {

bool IsWithin(const Operand& operand, double low, double high) {
  for (int64_t i = 0; i < operand.value.size(); ++i) {
    const double x = operand.value[i].real();
    if (!(x >= low && x <= high)) return false;
  }
  return true;
}

bool Broadcasts(const Index& a, const Index& b) {
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const int64_t x = a[a.size() - i], y = b[b.size() - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

int Weight(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 12;
    case DType::kFloat64:
    case DType::kInt32:
      return 6;
    case DType::kInt64:
    case DType::kBool:
      return 4;
    case DType::kHalf:
    case DType::kBfloat16:
      return 2;
    default:
      return 1;
  }
}

}  // namespace

DType PickDType(Random& random, const std::vector<DType>& dtypes) {
  int sum = 0;
  for (DType dtype : dtypes) sum += Weight(dtype);
  int64_t at = random.Below(sum);
  for (DType dtype : dtypes) {
    at -= Weight(dtype);
    if (at < 0) return dtype;
  }
  return dtypes[0];
}

Pool::Pool(GraphCase& graph_case, Random& random) : case_(graph_case), random_(random), scopes_(1) {}

bool Pool::drew_what_varies() const {
  return std::any_of(drawn_.begin(), drawn_.end(), [](const Operand& operand) { return operand.varies; });
}

std::vector<Operand> Pool::Visible() const {
  std::vector<Operand> all;
  for (const auto& scope : scopes_) all.insert(all.end(), scope.begin(), scope.end());
  return all;
}

const Operand* Pool::Find(const Output& output) const {
  for (const auto& scope : scopes_) {
    for (const Operand& operand : scope) {
      if (operand.output == output) return &operand;
    }
  }
  return nullptr;
}

const Operand* Pool::FindDrawn(DType dtype, const Fits& fits) {
  if (drawn_.empty() || !random_.Chance(30)) return nullptr;
  const Operand& operand = random_.Pick(drawn_);
  return operand.dtype() == dtype && fits(operand) ? &operand : nullptr;
}

Operand Pool::Draw(DType dtype, const Fits& fits, const std::function<Operand()>& otherwise) {
  Operand result;
  if (const Operand* drawn = FindDrawn(dtype, fits)) {
    result = *drawn;
  } else {
    std::vector<const Operand*> fitting;
    for (const auto& scope : scopes_) {
      for (const Operand& operand : scope) {
        if (operand.dtype() == dtype && fits(operand)) fitting.push_back(&operand);
      }
    }
    // Late ones more often, so that graphs grow deep.
    const auto count = static_cast<int64_t>(fitting.size());
    const bool is_there = count > 0 && !random_.Chance(count > 3 ? 5 : 20);
    result = is_there ? *fitting[std::max(random_.Below(count), random_.Below(count))] : otherwise();
  }
  drawn_.push_back(result);
  return result;
}

Operand Pool::Any(DType dtype) {
  return Draw(
      dtype, [](const Operand&) { return true; }, [&] { return Leaf(dtype, AnyDims()); });
}

Operand Pool::OfRank(DType dtype, int rank) {
  return Draw(
      dtype, [&](const Operand& operand) { return operand.rank() == rank; },
      [&] { return Leaf(dtype, DimsOfRank(rank)); });
}

Operand Pool::OfRankAtLeast(DType dtype, int rank) {
  return Draw(
      dtype, [&](const Operand& operand) { return operand.rank() >= rank; },
      [&] { return Leaf(dtype, DimsOfRank(rank + static_cast<int>(random_.Below(2)))); });
}

Operand Pool::OfShape(DType dtype, const Index& dims) {
  return Draw(
      dtype, [&](const Operand& operand) { return operand.dims() == dims; },
      [&] { return Leaf(dtype, dims); });
}

Operand Pool::BroadcastsWith(DType dtype, const Index& dims) {
  return Draw(
      dtype, [&](const Operand& operand) { return Broadcasts(operand.dims(), dims); },
      [&] {
        Index own = dims;
        if (!own.empty() && random_.Chance(30))
          own.erase(own.begin(), own.begin() + random_.Below(own.size() + 1));
        for (int64_t& dim : own) {
          if (random_.Chance(20)) dim = 1;
        }
        return Leaf(dtype, own);
      });
}

Operand Pool::Between(DType dtype, double low, double high) {
  return Draw(
      dtype, [&](const Operand& operand) { return !operand.varies && IsWithin(operand, low, high); },
      [&] { return Leaf(dtype, AnyDims(), low, high); });
}

Operand Pool::OfShapeBetween(DType dtype, const Index& dims, double low, double high) {
  return Draw(
      dtype,
      [&](const Operand& operand) {
        return !operand.varies && operand.dims() == dims && IsWithin(operand, low, high);
      },
      [&] { return Leaf(dtype, dims, low, high); });
}

Output Pool::Exactly(const Array& value, DType dtype) {
  const bool is_known = is_inside() || random_.Chance(75);
  return is_known ? AddConstant(value, dtype) : AddPlaceholder(value, dtype);
}

Output Pool::Integers(const std::vector<int64_t>& values, DType dtype) {
  if (dtype == DType::kInvalid) dtype = random_.Chance(70) ? DType::kInt32 : DType::kInt64;
  Array array({static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) array[i] = static_cast<double>(values[i]);
  return Exactly(array, dtype);
}

Output Pool::Integer(int64_t value, DType dtype) {
  if (dtype == DType::kInvalid) dtype = random_.Chance(70) ? DType::kInt32 : DType::kInt64;
  return Exactly(Array({}, static_cast<double>(value)), dtype);
}

Index Pool::DimsOfRank(int rank) {
  Index dims;
  int64_t size = 1;
  for (int i = 0; i < rank; ++i) {
    int64_t dim = random_.Between(1, 4);
    if (random_.Chance(2)) dim = 0;
    if (size * dim > 48) dim = 1;
    dims.push_back(dim);
    size *= std::max<int64_t>(dim, 1);
  }
  return dims;
}

Index Pool::AnyDims() { return DimsOfRank(static_cast<int>(random_.Pick<int>({0, 1, 1, 2, 2, 2, 3, 4}))); }

Operand Pool::Leaf(DType dtype, const Index& dims, double low, double high) {
  Array array(dims);
  const bool is_grid = random_.Chance(40);  // many equal numbers
  for (int64_t i = 0; i < array.size(); ++i) {
    double x = random_.Real(low, high);
    if (!IsFloating(dtype)) x = std::clamp(std::round(x), std::ceil(low), std::floor(high));
    if (IsFloating(dtype) && is_grid && high - low >= 1) x = std::clamp(std::round(4 * x) / 4, low, high);
    if (dtype == DType::kBool) x = random_.Chance(50) ? 1 : 0;
    if (dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32 ||
        dtype == DType::kUint64)
      x = std::abs(x);
    array[i] = x;
  }
  // What a float cannot hold must not leave the range.
  array = Array::FromTensor(array.ToTensor(dtype));
  Operand leaf;
  leaf.value = array;
  const int64_t kind = is_inside() ? 0 : random_.Below(100);
  if (kind < 45) {
    leaf.output = AddConstant(array, dtype);
  } else if (kind < 90) {
    leaf.output = AddPlaceholder(array, dtype);
  } else {
    leaf.output = AddVariable(array, dtype);
  }
  if (g().ok()) Add(leaf);
  return leaf;
}

std::optional<Operand> Pool::Apply(const std::string& op, const Operand& x,
                                   const std::optional<Array>& second, AttrMap attrs) {
  std::vector<InputArg> inputs = {x.output};
  std::vector<Array> values = {x.value};
  if (second) {
    const bool steers = op == "Transpose" || op == "Reshape";
    inputs.push_back(Exactly(*second, steers ? DType::kInt32 : x.dtype()));
    values.push_back(*second);
  }
  Node* const node = g().AddNode(op, std::move(inputs), std::move(attrs));
  if (node == nullptr) return std::nullopt;
  absl::StatusOr<std::vector<Array>> outputs = EvaluateReference(*node, std::move(values));
  if (!outputs.ok()) {
    g().SetError(outputs.status());
    return std::nullopt;
  }
  bool is_undefined = false;
  const Operand result = {node->output(0),
                          Represented((*outputs)[0], node->output_type(0), true, &is_undefined), x.varies};
  if (is_undefined) return std::nullopt;
  Add(result);
  return result;
}

void Pool::FeedInterior(Operand* operand) {
  if (IsFloating(operand->dtype())) {
    for (int64_t i = 0; i < operand->value.size(); ++i) operand->value[i].number *= 0.875;
    operand->value = Array::FromTensor(operand->value.ToTensor(operand->dtype()));
  }
  case_.feeds.emplace_back(operand->output, operand->value.ToTensor(operand->dtype()));
}

Output Pool::AddConstant(const Array& value, DType dtype) {
  return g().AddOp("Const", {}, {{"value", value.ToTensor(dtype)}, {"dtype", dtype}}, "const");
}

Output Pool::AddPlaceholder(const Array& value, DType dtype) {
  // What the graph knows of the shape: all, some, nothing.
  PartialShape shape = PartialShape(Shape(absl::MakeConstSpan(value.dims())));
  const int64_t knows = random_.Below(10);
  if (knows < 2) {
    Index dims = value.dims();
    for (int64_t& dim : dims) dim = random_.Chance(50) ? -1 : dim;
    shape = PartialShape::FromDims(dims).value();
  } else if (knows == 2) {
    shape = PartialShape();
  }
  const Tensor fed = value.ToTensor(dtype);
  if (knows == 3) {
    const Output known = AddConstant(value, dtype);
    return g().AddOp("PlaceholderWithDefault", {known}, {{"shape", shape}}, "default");
  }
  const Output placeholder = g().AddOp("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}, "x");
  if (placeholder) case_.feeds.emplace_back(placeholder, fed);
  return placeholder;
}

// A variable that nothing writes after its initializer.
Output Pool::AddVariable(const Array& value, DType dtype) {
  auto clear = g().ClearControlScope();  // it is initialized before the first step
  const std::string name = absl::StrCat("constant_variable", num_variables_++);
  const Shape shape(absl::MakeConstSpan(value.dims()));
  const Output handle =
      g().AddOp("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}, {"shared_name", name}}, name);
  Node* assign = g().AddNode("AssignVariableOp", {handle, AddConstant(value, dtype)}, {}, "initialize");
  if (assign != nullptr) g().graph().AddControlInput(case_.initializer, assign);
  return g().AddOp("ReadVariableOp", {handle}, {{"dtype", dtype}}, "read");
}

}  // namespace weir::random_graphs
