// Grayscale morphology.
#include <limits>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

double LowestOf(DType dtype) {
  if (IsUnsigned(dtype)) return 0;
  return dtype == DType::kFloat32 ? std::numeric_limits<float>::lowest() : -kInfinity;
}

// Calls visit(index of the output, index of its largest pixel, index of the filter's element, largest sum).
// Where no sum exceeds the lowest number, the pixel that the window begins at, or the image if that is later,
// and the filter's first element.
void ForEachMaximum(const reference::Call& call, const Index& output,
                    const std::function<void(const Index&, const Index&, const Index&, double)>& visit) {
  const Array &image = call.in(0), &filter = call.in(1);
  const Array outputs(output);
  const double lowest = LowestOf(call.node.attr<DType>("T"));
  for (int64_t o = 0; o < outputs.size(); ++o) {
    const Index at = outputs.IndexOf(o);
    Index pixel, element;
    double largest = lowest;
    for (int64_t f = 0; f < filter.size(); ++f) {
      const Index k = filter.IndexOf(f);
      if (k[2] != at[3]) continue;
      Index p = {at[0], 0, 0, at[3]}, first = p;
      bool inside = true;
      for (int axis = 0; axis < 2; ++axis) {
        const int64_t stride = call.integers("strides")[axis + 1], rate = call.integers("rates")[axis + 1];
        const int64_t reach = (filter.dim(axis) - 1) * rate + 1;
        const int64_t missing = (output[axis + 1] - 1) * stride + reach - image.dim(axis + 1);
        const int64_t before = call.text("padding") == "SAME" ? std::max<int64_t>(0, missing) / 2 : 0;
        p[axis + 1] = at[axis + 1] * stride - before + k[axis] * rate;
        first[axis + 1] = std::max<int64_t>(at[axis + 1] * stride - before, 0);
        inside = inside && p[axis + 1] >= 0 && p[axis + 1] < image.dim(axis + 1);
      }
      if (pixel.empty()) {
        pixel = first;
        element = {0, 0, k[2]};
      }
      if (!inside) continue;
      const double sum = image.at(p).real() + filter[f].real();
      if (sum > largest) {
        largest = sum;
        pixel = p;
        element = k;
      }
    }
    visit(at, pixel, element, largest);
  }
}

void Dilate(reference::Call& call) {
  const Array &image = call.in(0), &filter = call.in(1);
  Index dims = {image.dim(0), 0, 0, image.dim(3)};
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t stride = call.integers("strides")[axis + 1];
    const int64_t reach = (filter.dim(axis) - 1) * call.integers("rates")[axis + 1] + 1;
    const int64_t free =
        call.text("padding") == "SAME" ? image.dim(axis + 1) - 1 : image.dim(axis + 1) - reach;
    dims[axis + 1] = free / stride + 1;
  }
  call.outputs[0] = Array(dims);
  ForEachMaximum(call, dims, [&](const Index& at, const Index&, const Index&, double largest) {
    call.outputs[0].at(at) = largest;
  });
}

template <bool of_filter>
void Backprop(reference::Call& call) {
  call.outputs[0] = Array(call.in(of_filter ? 1 : 0).dims());
  ForEachMaximum(call, call.in(2).dims(),
                 [&](const Index& at, const Index& pixel, const Index& element, double) {
                   call.outputs[0].at(of_filter ? element : pixel).number += call.in(2).at(at).real();
                 });
}

AttrMap Sliding(std::vector<int64_t> strides, std::vector<int64_t> rates, const char* padding) {
  return {{"strides", std::move(strides)}, {"rates", std::move(rates)}, {"padding", std::string(padding)}};
}

}  // namespace

void AddDilationRecords(Suite& suite) {
  OpRecord& forward = suite.Op("Dilation2D").Reference(Dilate);
  OpRecord& image_gradient = suite.Op("Dilation2DBackpropInput").Reference(Backprop<false>).NoGradient();
  OpRecord& filter_gradient = suite.Op("Dilation2DBackpropFilter").Reference(Backprop<true>).NoGradient();
  const AttrMap valid = Sliding({1, 1, 1, 1}, {1, 1, 1, 1}, "VALID");
  const AttrMap same = Sliding({1, 2, 1, 1}, {1, 1, 2, 1}, "SAME");
  for (const DType dtype : kOrdered) {
    const double low = IsUnsigned(dtype) ? 0 : -9;
    const Tensor image = Sample(dtype, {2, 4, 5, 2}, low, 40, 1),
                 filter = Sample(dtype, {2, 3, 2}, low, 9, 2);
    forward.Call({image, filter}, valid).Call({image, filter}, same);
    for (OpRecord* op : {&image_gradient, &filter_gradient}) {
      // Small whole numbers: sums are exact in every type.
      op->Call({image, filter, Make(dtype, {2, 3, 3, 2}, std::vector<double>(36, 1))}, valid);
      op->Call({image, filter, Make(dtype, {2, 2, 5, 2}, std::vector<double>(40, 2))}, same);
    }
  }
  forward.Call({Floats({0, 4, 4, 1}), Floats({2, 2, 1})}, valid);
  // No sum exceeds the lowest number.
  forward.NoGradient();
  for (const auto& [dtype, value] :
       {std::pair(DType::kUint8, 0.0), std::pair(DType::kUint64, 0.0), std::pair(DType::kFloat32, -kInfinity),
        std::pair(DType::kFloat32, std::numeric_limits<double>::quiet_NaN())}) {
    const Tensor image = Make(dtype, {1, 3, 3, 1}, std::vector<double>(9, value));
    const Tensor filter = Make(dtype, {2, 3, 1}, std::vector<double>(6, 0));
    forward.Call({image, filter}, same);
    for (OpRecord* op : {&image_gradient, &filter_gradient}) {
      op->Call({image, filter, Make(dtype, {1, 2, 3, 1}, {1, 2, 3, 4, 5, 6})}, same);
      op->Call({image, filter, Make(dtype, {1, 2, 1, 1}, {7, 8})}, valid);
    }
  }
  const Tensor image = Floats({1, 4, 4, 2}), filter = Floats({2, 2, 2});
  for (OpRecord* op : {&forward, &image_gradient, &filter_gradient}) {
    const auto inputs = [&](Tensor x, Tensor w) {
      std::vector<CaseInput> all = {std::move(x), std::move(w)};
      if (op != &forward) all.push_back(Floats({1, 3, 3, 2}));
      return all;
    };
    op->Hostile(inputs(Floats({4, 4, 2}), filter), "input must be 4-dimensional", valid);
    op->Hostile(inputs(image, Floats({2, 2})), "filter must be 3-dimensional", valid);
    op->Hostile(inputs(image, Floats({2, 2, 3})), "input and filter must have the same depth: 2 vs 3", valid);
    op->Hostile(inputs(image, Floats({5, 2, 2})), "window", valid);
    op->Hostile(inputs(image, filter), "strides", Sliding({1, 1, 1, 2}, {1, 1, 1, 1}, "VALID"));
    op->Hostile(inputs(image, filter), "rates", Sliding({1, 1, 1, 1}, {1, 1}, "VALID"));
    op->Hostile(inputs(image, filter), "stride", Sliding({1, 0, 1, 1}, {1, 1, 1, 1}, "VALID"));
  }
  for (OpRecord* op : {&image_gradient, &filter_gradient}) {
    op->Hostile({image, filter, Floats({3, 3, 2})}, "out_backprop must be 4-dimensional", valid);
    op->Hostile({image, filter, Floats({1, 3, 2, 2})}, "out_backprop has incompatible size", valid);
  }
}

}  // namespace weir::conformance
