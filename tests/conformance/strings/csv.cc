// DecodeCSV: what it gives is compared with TensorFlow's in tensorflow_test.py; here is what it refuses.
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddCsvRecords(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  OpRecord& csv = suite.Op("DecodeCSV").TestedElsewhere("tests/conformance/tensorflow_test.py");
  const Tensor integer = Ints({7}), text = Words({"d"});
  const auto refuse = [&](const char* line, Tensors defaults, std::string error, AttrMap attrs = {}) {
    csv.Hostile({Words({line}), std::move(defaults)}, std::move(error), std::move(attrs));
  };
  refuse("1", {integer, integer}, "Expect 2 fields but have 1 in record 0");
  refuse("1,2,3", {integer, integer}, "Expect 2 fields but have 3 in record 0");
  refuse("", {integer}, "Expect 1 fields but have 0 in record 0");
  refuse("\n", {integer}, "Expect 1 fields but have 0 in record 0");
  refuse("a,\n", {text, text}, "Expect 2 fields but have 1 in record 0");
  refuse("x", {integer}, "Field 0 in record 0 is not a valid int32: x");
  refuse("99999999999", {integer}, "is not a valid int32");
  refuse("x", {Floats({1})}, "Field 0 in record 0 is not a valid float");
  refuse(",", {Ints({}), integer}, "Field 0 is required but missing in record 0!");
  refuse("\"a\"b", {text}, "Quote inside a string has to be escaped by another quote");
  refuse("a\"b", {text}, "Unquoted fields cannot have quotes/CRLFs inside");
  refuse("a\r", {text}, "Unquoted fields cannot have quotes/CRLFs inside");
  refuse("\"a\"\n", {text}, "Quote inside a string has to be escaped by another quote");
  refuse("a\"b,1", {integer}, "Unquoted fields cannot have quotes/CRLFs inside",
         {{"select_cols", std::vector<int64_t>{1}}});
  refuse("a,b,\n", {text, text}, "Expect 2 fields but have 1", {{"select_cols", std::vector<int64_t>{1, 2}}});
  refuse("\"a", {text}, "Quoted field has to end with quote followed by delim or end");
  refuse("1", {Ints({1, 2})}, "There should only be 1 default per field");
  refuse("1", {Make(DType::kInt32, {1, 1}, {1})}, "default");
  refuse("1", {integer}, "field_delim should be only 1 char", {{"field_delim", ";;"}});
  refuse("1,2", {integer, integer}, "strictly increasing", {{"select_cols", std::vector<int64_t>{1, 0}}});
  refuse("1,2", {integer}, "non-negative", {{"select_cols", std::vector<int64_t>{-1}}});
  refuse("1,2", {integer}, "should match output size", {{"select_cols", std::vector<int64_t>{0, 1}}});
  refuse("1,2", {integer}, "Expect 1 fields but have 0", {{"select_cols", std::vector<int64_t>{kWide}}});
}

}  // namespace weir::conformance
