// Numbers as text, and text as numbers.
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <sstream>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;

// By the manipulators of iostreams, whose definition is in terms of printf's.
std::string Written(const Call& call, const Value& value, DType dtype) {
  std::ostringstream out;
  const std::string& fill = call.text("fill");
  if (call.integer("width") > 0) {
    out << std::setw(static_cast<int>(call.integer("width")));
    if (fill == "0") out << std::setfill('0') << std::internal;
    if (fill == "-") out << std::left;
    if (fill == "+") out << std::showpos;
  }
  if (dtype == D::kString) {
    const int64_t precision = call.integer("precision");
    out << std::setfill(' ');
    if (fill != "-") out << std::right;
    out << (call.integer("width") > 0 && precision >= 0 ? value.text.substr(0, precision) : value.text);
  } else if (dtype == D::kBool) {
    return value.is_zero() ? "false" : "true";
  } else if (IsFloating(dtype)) {
    if (!call.flag("shortest")) out << (call.flag("scientific") ? std::scientific : std::fixed);
    if (call.integer("precision") >= 0) out << std::setprecision(static_cast<int>(call.integer("precision")));
    out << value.real();
  } else if (IsUnsigned(dtype)) {
    out << static_cast<uint64_t>(value.real());
  } else {
    out << static_cast<int64_t>(value.real());
  }
  // A blank in front of what has no sign.
  const bool needs_blank = fill == " " && call.integer("width") > 0 && IsFloating(dtype);
  const std::string text = out.str();
  return needs_blank && text[0] != '-' && text[0] != ' ' ? " " + text : text;
}

void AsString(Call& call) {
  const DType dtype = call.node.input_type(0);
  call.outputs[0] = call.in(0);
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    const Value& value = call.in(0)[i];
    std::string& text = call.outputs[0][i].text;
    if (IsComplex(dtype)) {
      text = "(" + Written(call, value.number.real(), D::kFloat64) + "," +
             Written(call, value.number.imag(), D::kFloat64) + ")";
    } else {
      text = Written(call, value, dtype);
    }
    call.outputs[0][i].number = 0;
  }
}

void StringToNumber(Call& call) {
  const DType dtype = call.node.output_type(0);
  call.outputs[0] = Array(call.in(0).dims());
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    const char* text = call.in(0)[i].text.c_str();
    call.outputs[0][i].text.clear();
    call.outputs[0][i].number =
        dtype == D::kFloat32 ? static_cast<double>(std::strtof(text, nullptr)) : std::strtod(text, nullptr);
  }
}

void AddAsString(Suite& suite) {
  OpRecord& record = suite.Op("AsString").Reference(AsString);
  for (DType d : Join({kNumbers, {D::kBool}})) {
    const double low = IsUnsigned(d) ? 0 : -100;
    const Tensor numbers = d == D::kBool ? Bools({2}, {0, 1}) : Sample(d, {3, 2}, low, 100);
    record.Call({numbers});
    for (const char* fill : {"", "0", "-", "+", " "}) record.Call({numbers}, {{"width", 9}, {"fill", fill}});
    record.Call({numbers}, {{"fill", "0"}});
  }
  for (DType d : Join({kReals, kComplexes})) {
    const Tensor numbers = Make(d, {5}, {1.5, -2, 300, 0, 0.0009765625});
    record.Call({numbers}, {{"precision", 2}})
        .Call({numbers}, {{"scientific", true}})
        .Call({numbers}, {{"shortest", true}})
        .Call({numbers}, {{"shortest", true}, {"precision", 2}, {"width", 10}, {"fill", "0"}})
        .Call({numbers}, {{"scientific", true}, {"precision", 0}, {"width", 12}, {"fill", "-"}});
  }
  record.Call({Make(D::kFloat64, {4}, {std::nan(""), INFINITY, -INFINITY, 1e300})})
      .Call({Words({"abc", "", "abcdefgh"})})
      .Call({Words({"abc", "", "abcdefgh"})}, {{"width", 5}})
      .Call({Words({"abc", "", "abcdefgh"})}, {{"width", 5}, {"fill", "-"}})
      .Call({Words({"abc", "", "abcdefgh"})}, {{"width", 12}, {"fill", "0"}})
      .Call({Words({"abc"})}, {{"precision", 1}})
      .Call({Words({"ab"})}, {{"precision", 5}})
      .Call({Words({"ab"})}, {{"width", 0}, {"precision", 12}})
      .Call({Words({"abc", ""})}, {{"width", 5}, {"precision", 1}})
      .Call({Words({"abc"})}, {{"width", 5}, {"precision", 0}, {"fill", "-"}})
      .Call({Floats({2})}, {{"width", -3}, {"precision", -4}})
      .Call({Floats({2})}, {{"width", 0}})
      .Call({Floats({0, 2})});
  record
      .Hostile({Floats({1})}, "Cannot select both scientific and shortest notation",
               {{"scientific", true}, {"shortest", true}})
      .Hostile({Floats({1})}, "Fill string must be one or fewer characters", {{"fill", "00"}})
      .Hostile({Floats({1})}, "Fill argument not supported: \"x\"", {{"fill", "x"}})
      .Hostile({Floats({1})}, "Fill argument not supported: \"%\"", {{"fill", "%"}})
      .Hostile({Int(1)}, "precision not supported for datatype int32", {{"precision", 2}})
      .Hostile({Int(1)}, "scientific and shortest format not supported for datatype int32",
               {{"shortest", true}})
      .Hostile({Bools({}, {1})}, "precision not supported for datatype bool", {{"precision", 0}})
      .Hostile({Floats({1})}, "width is 9223372036854775807", {{"width", kLongest}})
      .Hostile({Floats({1})}, "precision 2147483648", {{"precision", int64_t{1} << 31}})
      .OutOfMemory({Floats({1})}, {{"width", 1'000'000'000}})
      .OutOfMemory({Strings({}, {"a"})}, {{"width", 1'000'000'000}})
      .OutOfMemory({Floats({1})}, {{"precision", 1'000'000'000}});
}

void AddStringToNumber(Suite& suite) {
  OpRecord& record = suite.Op("StringToNumber").Reference(StringToNumber);
  const auto refuse = [&](const std::string& text, DType dtype) {
    record.Hostile({Words({"1", text})}, "StringToNumberOp could not correctly convert string: " + text,
                   {{"out_type", dtype}});
  };
  for (DType d : {D::kFloat32, D::kFloat64}) {
    record
        .Call({Words({"1", " -2.5 ", "-inf", "NaN", "1e400", "-1e39", "1e-50", "0x10", "-0x1p3"})},
              {{"out_type", d}})
        .Call({Words({"+5", "infinity", "InFinity", "-nan(5)", ".5", "5.", "1E5", "1e-400", "3.4028236e38"})},
              {{"out_type", d}})
        .Call({Words({"\t1\n\v\f\r", "-0", "0x.8", "16777217"})}, {{"out_type", d}});
    for (const char* text : {"", "  ", "1_0", "1f", "- 1", "+ 10", "--1", "+-1", "1e", "abc", "0x", "1 2",
                             "0x-1", "-0x-1", "0x+1", "0xinf", "0xnan"}) {
      refuse(text, d);
    }
    record.Hostile({Words({std::string("1\0", 2)})}, "could not correctly convert", {{"out_type", d}});
  }
  record.Call({Words({"1", " 2 ", "-0", "+7", " 007\t", "-2147483648"})}, {{"out_type", D::kInt32}})
      .Call({Words({"4503599627370496", "-9223372036854775808"})}, {{"out_type", D::kInt64}})
      .Call({Words({"1", "4294967295"})}, {{"out_type", D::kUint32}})
      .Call({Words({"1", "4503599627370496"})}, {{"out_type", D::kUint64}})
      .Call({Strings({0, 2}, {})}, {{"out_type", D::kInt32}});
  for (const char* text : {"", " ", "1.0", "0x10", "2147483648", "1e2", "- 1"}) refuse(text, D::kInt32);
  refuse("9223372036854775808", D::kInt64);
  refuse("-1", D::kUint32);
  refuse("4294967296", D::kUint32);
  refuse("18446744073709551616", D::kUint64);
}

}  // namespace

void AddTextRecords(Suite& suite) {
  AddAsString(suite);
  AddStringToNumber(suite);
}

}  // namespace weir::conformance
