// Tensors in a template: the texts are TensorFlow 2.21's.
#include <cmath>
#include <map>
#include <string>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;

Tensor Range(std::vector<int64_t> dims, double divisor = 1, DType dtype = D::kInt32) {
  std::vector<double> values(Shape(absl::MakeConstSpan(dims)).num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / divisor;
  return Make(dtype, std::move(dims), std::move(values));
}

}  // namespace

void AddStringFormatRecords(Suite& suite) {
  // The label in front of each template names its text.
  static const auto* const texts = new std::map<std::string, std::string>{
      {"vector {}", "vector [1 2 3]"},
      {"two {} and {}.", "two [1 2 3] and [[1.5 2]\n [3 4]]."},
      {"none", "none"},
      {"long {}", "long [0 1 2 ... 17 18 19]"},
      {"all {}", "all [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19]"},
      {"nothing {}", "nothing [ ...]"},
      {"matrix {}", "matrix [[0 1 ... 6 7]\n [8 9 ... 14 15]\n ...\n [48 49 ... 54 55]\n [56 57 ... 62 63]]"},
      {"cube {}",
       "cube [[[0 ... 0.2857142857142857]\n  ...\n  [0.8571428571428571 ... 1.1428571428571428]]\n\n ...\n\n "
       "[[2.5714285714285716 ... 2.8571428571428572]\n  ...\n  [3.4285714285714284 ... "
       "3.7142857142857144]]]"},
      {"kinds {}{}{}{}", "kinds \"abc\"[\"x\" \"y\\n\\\"\"]1[1 0]"},
      {"letters {}", "letters \"\u00e9\""},
      {"numbers {}{}{}{}{}{}",
       "numbers [1e+10 1e-10 nan 0.333333343][10000000000 "
       "0.33333333333333331][1.09960938][1.1015625][-3][200]"},
      {"empty {}{}{}", "empty [][\n ...]5"},
  };
  using Tensors = std::vector<Tensor>;
  OpRecord& record = suite.Op("StringFormat").Reference([](reference::Call& call) {
    call.outputs[0] = Array(Index{});
    call.outputs[0][0].text = texts->at(call.text("template"));
  });
  const auto format = [&](const char* text, const Tensors& tensors, int summarize = 3) {
    record.Call({CaseInput(tensors)}, {{"template", text}, {"placeholder", "{}"}, {"summarize", summarize}});
  };
  format("vector {}", {Ints({1, 2, 3})});
  format("two {} and {}.", {Ints({1, 2, 3}), Make(D::kFloat32, {2, 2}, {1.5, 2, 3, 4})});
  format("long {}", {Range({20})});
  format("all {}", {Range({20})}, -1);
  format("nothing {}", {Range({20})}, 0);
  format("matrix {}", {Range({8, 8})}, 2);
  format("cube {}", {Range({3, 3, 3}, 7, D::kFloat64)}, 1);
  format("kinds {}{}{}{}", {Strings({}, {"abc"}), Words({"x", "y\n\""}), Bools({}, {1}), Bools({2}, {1, 0})});
  format("letters {}", {Strings({}, {"\u00e9"})});
  format("numbers {}{}{}{}{}{}",
         {Make(D::kFloat32, {4}, {1e10, 1e-10, std::nan(""), 1.0 / 3}),
          Make(D::kFloat64, {2}, {1e10, 1.0 / 3}), Make(D::kHalf, {1}, {1.1}), Make(D::kBfloat16, {1}, {1.1}),
          Make(D::kInt8, {1}, {-3}), Make(D::kUint8, {1}, {200})});
  format("empty {}{}{}", {Empty({0, 3}), Empty({2, 0}), Int(5)});
  const auto refuse = [&](const char* text, const char* placeholder, const char* error) {
    record.Hostile({Tensors{Int(1)}}, error, {{"template", text}, {"placeholder", placeholder}});
  };
  refuse("a", "{}", "num placeholders in template and num inputs must match: 0 vs. 1");
  refuse("{}{}", "{}", "num placeholders in template and num inputs must match: 2 vs. 1");
  refuse("", "", "num placeholders in template and num inputs must match: 0 vs. 1");
  refuse("abc", "", "num placeholders in template and num inputs must match: 2 vs. 1");
}

}  // namespace weir::conformance
