// A shape such as [2^40,0] takes no bytes and is valid: what an op allocates or visits for each of its rows
// would end the process. Every call of the suite gets such inputs; each must end with a result or an error.
//
// A child process runs the calls of an op, with an address space that holds no byte for each row; a call that
// takes long is cancelled, and must notice.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/evaluate.h"
#include "kernels/fake/fake_device.h"
#include "kernels/fake/fake_kernels.h"
#include "ops/register_ops.h"
#include "tests/conformance/hostile_cases.h"
#include "tests/conformance/op_case.h"
#include "tests/conformance/suite.h"
#include "tests/random_graphs/child.h"

namespace weir::conformance {
namespace {

constexpr int64_t kRows = int64_t{1} << 40;
constexpr int64_t kMostElements = int64_t{1} << 20;  // of an input that still has some
constexpr absl::Duration kCancelledAfter = absl::Milliseconds(100);
constexpr absl::Duration kPatience = absl::Seconds(60);  // with a call that was cancelled, on a busy machine

// ---- The calls ----

// The call with other dimensions; false where an input would be no shape, or have elements without number.
// Inputs whose shape changes have no elements then.
template <typename DimOf>
bool Reshape(HostileCase& call, DimOf dim_of) {
  for (size_t input = 0; input < call.inputs.size(); ++input) {
    for (Tensor& tensor : call.inputs[input].tensors) {
      Dims dims(tensor.shape().dims().begin(), tensor.shape().dims().end());
      for (size_t d = 0; d < dims.size(); ++d) dims[d] = dim_of(input, static_cast<int>(d), dims[d]);
      const absl::StatusOr<Shape> shape = Shape::FromDims(dims);
      if (!shape.ok() || shape->num_elements() > kMostElements) return false;
      if (*shape != tensor.shape()) tensor = Tensor(tensor.dtype(), *shape);
    }
  }
  return true;
}

std::set<int64_t> SizesOf(const HostileCase& call) {
  std::set<int64_t> sizes;
  for (const CaseInput& input : call.inputs) {
    for (const Tensor& tensor : input.tensors)
      sizes.insert(tensor.shape().dims().begin(), tensor.shape().dims().end());
  }
  return sizes;
}

// Each input alone: one dimension is 0, another one huge. Then all inputs together: wherever a dimension has
// one size it is 0, and wherever it has another size it is huge, so that they still fit each other.
std::vector<HostileCase> CallsOfNothing(const OpCase& test) {
  const HostileCase call = {test.op, test.attrs, test.inputs, ""};
  std::vector<HostileCase> calls;
  const auto add = [&](auto dim_of) {
    HostileCase changed = call;
    if (Reshape(changed, dim_of)) calls.push_back(std::move(changed));
  };
  for (size_t input = 0; input < call.inputs.size(); ++input) {
    if (call.inputs[input].tensors.empty()) continue;
    const int rank = call.inputs[input].tensors[0].shape().rank();
    for (int zero = 0; zero < rank; ++zero) {
      for (int huge = 0; huge < rank; ++huge) {
        if (huge == zero) continue;
        add([&](size_t i, int d, int64_t size) {
          return i != input ? size : d == zero ? 0 : d == huge ? kRows : size;
        });
      }
    }
  }
  const std::set<int64_t> sizes = SizesOf(call);
  for (const int64_t zero : sizes) {
    for (const int64_t huge : sizes) {
      if (huge == zero) continue;
      add([&](size_t, int, int64_t size) { return size == zero ? 0 : size == huge ? kRows : size; });
    }
  }
  return calls;
}

std::string ToString(const HostileCase& call) {
  const auto shape_of = [](std::string* out, const Tensor& tensor) {
    absl::StrAppend(out, DTypeName(tensor.dtype()), tensor.shape().ToString());
  };
  const auto input_of = [&](std::string* out, const CaseInput& input) {
    absl::StrAppend(out, absl::StrJoin(input.tensors, ",", shape_of));
  };
  std::string attrs;
  for (const auto& [name, value] : call.attrs) absl::StrAppend(&attrs, " ", name, "=", value.ToString());
  return absl::StrCat(call.op, "(", absl::StrJoin(call.inputs, "; ", input_of), ")", attrs);
}

// Of all calls of an op, each once.
std::vector<HostileCase> CallsOfNothing(const OpRecord& record) {
  std::vector<HostileCase> calls;
  std::set<std::string> known;
  for (const std::vector<OpCase>& tests : {record.calls(), record.updates()}) {
    for (const OpCase& test : tests) {
      for (HostileCase& call : CallsOfNothing(test)) {
        if (known.insert(ToString(call)).second) calls.push_back(std::move(call));
      }
    }
  }
  return calls;
}

// ---- Running them ----

void LimitAddressSpace() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need much of it
  constexpr uint64_t kEnough = uint64_t{8} << 30;
  uint64_t num_pages = 0;
  std::ifstream("/proc/self/statm") >> num_pages;
  rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = num_pages * sysconf(_SC_PAGESIZE) + kEnough;
  setrlimit(RLIMIT_AS, &limit);
#endif
}

// Cancels the step, should it still run by then.
class Limit {
 public:
  explicit Limit(Cancellation& cancellation)
      : thread_([this, &cancellation] {
          if (!has_ended_.WaitForNotificationWithTimeout(kCancelledAfter))
            cancellation.Cancel(absl::CancelledError("enough"));
        }) {}
  ~Limit() {
    has_ended_.Notify();
    thread_.join();
  }

 private:
  absl::Notification has_ended_;
  std::thread thread_;
};

Output PlaceholderOf(GraphBuilder& g, const Tensor& value, bool has_shape) {
  AttrMap attrs = {{"dtype", value.dtype()}};
  if (has_shape) attrs["shape"] = PartialShape(value.shape());
  return g.AddOp("Placeholder", {}, attrs);
}

absl::Status Evaluate(const HostileCase& call, bool knows_shapes, Device& device,
                      const KernelRegistry& kernels) {
  GraphBuilder g(StandardOps());
  std::vector<InputArg> args;
  std::vector<Tensor> flat;
  for (const CaseInput& input : call.inputs) {
    std::vector<Output> outputs;
    for (const Tensor& tensor : input.tensors) {
      flat.push_back(input.is_variable ? HandleOf(tensor) : tensor);
      outputs.push_back(PlaceholderOf(g, flat.back(), knows_shapes));
    }
    args.push_back(input.is_list ? InputArg(outputs) : InputArg(outputs[0]));
  }
  Node* const node = g.AddNode(call.op, args, call.attrs, "hostile");
  if (node == nullptr) return g.status();
  Cancellation cancellation;
  const Limit limit(cancellation);
  return EvaluateNode(*node, flat, device, kernels, nullptr, cancellation).status();
}

// What is wrong with the results, in words; the children do not come to the end of others.
std::string FaultsOf(absl::Span<const HostileCase> calls) {
  ThreadPool threads(2);
  const std::unique_ptr<FakeDevice> device = MakeFakeDevice("test", 0, 0, threads, kHostileDeviceBytes);
  KernelRegistry kernels;
  RegisterFakeKernels(kernels);
  LimitAddressSpace();
  std::string faults;
  for (const HostileCase& call : calls) {
    for (const bool knows_shapes : {false, true}) {
      const absl::Status status = Evaluate(call, knows_shapes, *device, kernels);
      if (absl::IsInternal(status)) absl::StrAppend(&faults, ToString(call), ": ", status.ToString(), "\n");
    }
  }
  return faults;
}

std::string FaultsInChild(absl::Span<const HostileCase> calls, absl::Duration limit) {
  const absl::StatusOr<std::string> faults =
      random_graphs::RunInChild(limit, [&] { return FaultsOf(calls); });
  return faults.ok() ? *faults : absl::StrCat("the child ", faults.status().message());
}

TEST(RowsOfNothing, EndNoProcess) {
  size_t num_calls = 0;
  StandardOps();  // made once, for all children
  for (const auto& [op, record] : Suite::Whole().records()) {
    const std::vector<HostileCase> calls = CallsOfNothing(record);
    if (calls.empty()) continue;
    num_calls += calls.size();
    const absl::Duration limit = kPatience + 3 * static_cast<double>(calls.size()) * kCancelledAfter;
    if (FaultsInChild(calls, limit).empty()) continue;
    for (const HostileCase& call : calls) {
      const std::string faults = FaultsInChild({call}, kPatience);
      EXPECT_EQ(faults, "") << ToString(call);
      if (!faults.empty()) break;  // the others of the op are mostly the same fault
    }
  }
  EXPECT_GT(num_calls, 5000);
}

}  // namespace
}  // namespace weir::conformance
