// Definitions of ops in a line: what a record gives to OpRecord::Reference.
//
//   suite.Op("Softsign").Reference(EachNumber([](Number x) { return x / (1.0 + std::abs(x)); }));
//   suite.Op("Sub").Reference(EachPair([](Number x, Number y) { return x - y; }));
//   suite.Op("Max").Reference(ReduceWith(-kInfinity, Largest));
//
// Inputs are valid: the suite calls a reference with the inputs of a call that succeeds.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "kernels/reference/array.h"

namespace weir::conformance {

using reference::Array;
using reference::Index;
using reference::Number;
using reference::Value;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// output[i] = f(input[i])
reference::Reference EachNumber(std::function<Number(Number)> f);
reference::Reference EachReal(std::function<double(double)> f);
// Real numbers by `real`, complex ones by `complex`: they differ at the ends of the number range, and where
// the complex function would leave the real axis.
reference::Reference EachNumber(std::function<double(double)> real, std::function<Number(Number)> complex);

// output[i] = f(x[i], y[i]) of the operands broadcast together as numpy does.
reference::Reference EachPair(std::function<Number(Number, Number)> f);
reference::Reference EachRealPair(std::function<double(double, double)> f);
// Of elements that may be strings.
reference::Reference EachPairOfValues(std::function<Value(const Value&, const Value&)> f);

// The element of a broadcast operand at an index of the result, and the result's dimensions.
const Value& BroadcastAt(const Array& operand, const Index& index);
Index BroadcastDims(const Array& x, const Array& y);

// Along the axes in input 1, with attr keep_dims: finish(combine(... combine(start, first) ..., last), count)
// where count is the number of elements that are combined into one.
using Finish = std::function<Number(Number, int64_t count)>;
reference::Reference ReduceWith(double start, std::function<Number(Number, Number)> combine,
                                Finish finish = nullptr);
// NaN if one is.
Number Largest(Number x, Number y);
Number Least(Number x, Number y);

// An array whose element at every index is `f(index)`.
Array Generate(Index dims, const std::function<Value(const Index&)>& f);
// A vector of whole numbers.
Array Vector(const Index& values);

// The slices of an array along one axis. `axis` may count from the end. For every slice, calls
// visit(index of its first element), with 0 at the axis.
void ForEachSlice(const Array& array, int axis, const std::function<void(Index)>& visit);

}  // namespace weir::conformance
