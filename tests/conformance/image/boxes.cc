// Boxes around objects.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

// ---- drawing ----

constexpr double kTable[10][3] = {{1, 1, 0},     {0, 0, 1},   {1, 0, 0},   {0, 1, 0}, {0.5, 0, 0.5},
                                  {0.5, 0.5, 0}, {0.5, 0, 0}, {0, 0, 0.5}, {0, 1, 1}, {1, 0, 1}};

double ColorOf(const reference::Call& call, int64_t box, int64_t channel) {
  if (call.inputs.size() == 3 && call.in(2).size() > 0) {
    return call.in(2).at({box % call.in(2).dim(0), channel}).real();
  }
  if (call.in(0).dim(3) == 1 || channel == 3) return 1;
  return kTable[box % 10][channel];
}

// A pixel is drawn when it is on one of the four lines, between the ends of the others.
void Draw(reference::Call& call) {
  const Array &images = call.in(0), &boxes = call.in(1);
  call.outputs[0] = Generate(images.dims(), [&](const Index& at) {
    Value color = images.at(at);
    for (int64_t k = 0; k < boxes.dim(1); ++k) {
      const auto edge = [&](int64_t corner, int64_t size) {
        return int64_t(boxes.at({at[0], k, corner}).real() * double(size - 1));
      };
      const int64_t top = edge(0, images.dim(1)), left = edge(1, images.dim(2));
      const int64_t bottom = edge(2, images.dim(1)), right = edge(3, images.dim(2));
      const bool in_rows = at[1] >= top && at[1] <= bottom, in_columns = at[2] >= left && at[2] <= right;
      const bool on_row = at[1] == top || at[1] == bottom, on_column = at[2] == left || at[2] == right;
      if ((in_rows && on_column) || (in_columns && on_row)) {
        if (top <= bottom && left <= right) color = Value(ColorOf(call, k, at[3]));
      }
    }
    return color;
  });
}

void AddDrawing(Suite& suite) {
  OpRecord& first = suite.Op("DrawBoundingBoxes").Reference(Draw);
  OpRecord& second = suite.Op("DrawBoundingBoxesV2").Reference(Draw).NoGradient();
  const Tensor boxes =
      Make(DType::kFloat32, {2, 3, 4},
           {0.1, 0.2, 0.7, 0.9, 0.5, -0.4, 1.6, 0.6, 0.8, 0.1, 0.3, 0.9,  // the last is inverted
            0,   0,   1,   1,   0.4, 0.4,  0.4, 0.4, 1.5, 0,   2,   1});
  for (const DType dtype : {DType::kFloat32, DType::kHalf}) {
    for (const int64_t depth : {1, 3, 4}) {
      const Tensor images = Sample(dtype, {2, 6, 7, depth}, 0, 1);
      first.Call({images, boxes});
      second.Call({images, boxes, Make(DType::kFloat32, {2, 4}, {0.25, 0.5, 0.75, 1, 1, 0.5, 0.25, 0})});
      second.Call({images, boxes, Floats({0, 4})});
    }
  }
  first.Call({Floats({0, 6, 7, 3}), Floats({0, 2, 4})});
  const Tensor images = Floats({2, 6, 7, 3});
  for (OpRecord* op : {&first, &second}) {
    const auto inputs = [&](Tensor x, Tensor b) {
      std::vector<CaseInput> all = {std::move(x), std::move(b)};
      if (op == &second) all.push_back(Floats({2, 4}));
      return all;
    };
    op->Hostile(inputs(Floats({6, 7, 3}), boxes), "rank of the images should be 4");
    op->Hostile(inputs(images, Floats({3, 4})), "rank of the boxes tensor should be 3");
    op->Hostile(inputs(Floats({1, 6, 7, 3}), boxes), "batch sizes should be the same");
    op->Hostile(inputs(Floats({2, 6, 7, 2}), boxes), "Channel depth should be");
    op->Hostile(inputs(images, Floats({2, 3, 5})), "third dimension of the box must be 4");
  }
  second.Hostile({images, boxes, Floats({2})}, "colors must be a 2-D matrix");
  second.Hostile({images, boxes, Floats({2, 2})}, "colors must have equal or more channels");
}

// ---- choosing ----

using Corners = std::array<double, 4>;

double OverlapOf(const Corners& a, const Corners& b) {
  const auto area = [](const Corners& c) { return std::abs((c[2] - c[0]) * (c[3] - c[1])); };
  const auto shared = [&](int axis) {
    const double low = std::max(std::min(a[axis], a[axis + 2]), std::min(b[axis], b[axis + 2]));
    return std::max(0.0, std::min(std::max(a[axis], a[axis + 2]), std::max(b[axis], b[axis + 2])) - low);
  };
  const double both = shared(0) * shared(1);
  return area(a) * area(b) == 0 ? 0 : both / (area(a) + area(b) - both);
}

Corners CornersOf(const Array& boxes, int64_t i) {
  Corners corners;
  for (int k = 0; k < 4; ++k) corners[k] = boxes.at({i, k}).real();
  return corners;
}

struct Picked {
  std::vector<int64_t> boxes;
  std::vector<double> scores;
};

// Each time the box of the highest score, the first of equal ones; then the others' scores fall.
Picked Pick(std::vector<double> scores, int64_t most, double threshold, double least, double sigma,
            const std::function<double(int64_t, int64_t)>& overlap) {
  Picked picked;
  std::vector<bool> is_left(scores.size(), true);
  while (int64_t(picked.boxes.size()) < most) {
    int64_t best = -1;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (is_left[i] && scores[i] > least && (best < 0 || scores[i] > scores[best])) best = int64_t(i);
    }
    if (best < 0) break;
    is_left[best] = false;
    picked.boxes.push_back(best);
    picked.scores.push_back(scores[best]);
    for (size_t i = 0; i < scores.size(); ++i) {
      const double x = overlap(int64_t(i), best);
      if (sigma > 0) scores[i] *= std::exp(-x * x / (2 * sigma));
      if (sigma == 0 && x > threshold) is_left[i] = false;
    }
  }
  return picked;
}

std::vector<double> Reals(const Array& array) {
  std::vector<double> values;
  for (int64_t i = 0; i < array.size(); ++i) values.push_back(array[i].real());
  return values;
}

Array Padded(const std::vector<double>& values, int64_t size) {
  Array array({size});
  for (size_t i = 0; i < values.size(); ++i) array[int64_t(i)] = values[i];
  return array;
}

void Suppress(reference::Call& call) {
  const auto number = [&](size_t i, double otherwise) {
    return call.inputs.size() > i ? call.in(int(i))[0].real() : otherwise;
  };
  const bool has_attr = call.node.FindAttr("iou_threshold") != nullptr;
  const double threshold = has_attr ? call.node.attr<float>("iou_threshold") : number(3, 0);
  const bool is_table = call.node.op_name() == "NonMaxSuppressionWithOverlaps";
  const int64_t most = call.in(2)[0].integer();
  const Picked picked = Pick(Reals(call.in(1)), most, threshold, number(4, -kInfinity), number(5, 0),
                             [&](int64_t i, int64_t j) {
                               if (is_table) return call.in(0).at({i, j}).real();
                               return OverlapOf(CornersOf(call.in(0), i), CornersOf(call.in(0), j));
                             });
  const auto count = int64_t(picked.boxes.size());
  const bool pads =
      call.node.FindAttr("pad_to_max_output_size") != nullptr && call.flag("pad_to_max_output_size");
  const int64_t size = pads ? most : count;
  call.outputs[0] = Padded({picked.boxes.begin(), picked.boxes.end()}, size);
  if (call.outputs.size() == 3) call.outputs[1] = Padded(picked.scores, size);
  if (call.outputs.size() > 1) call.outputs.back() = Array({}, Value(double(count)));
}

void AddSuppression(Suite& suite) {
  const std::vector<double> corners = {0, 0,  1, 1,    0, 0.1,  1, 1.1, 0, -0.125, 1, 0.875, 0, 10,
                                       1, 11, 1, 11.1, 0, 10.1, 0, 100, 1, 101,    5, 5,     5, 6};
  const std::vector<double> values = {0.875, 0.75, 0.625, 0.9375, 0.5, 0.25, 0.75};
  const auto scalar = [](DType dtype, double x) { return Make(dtype, {}, {x}); };
  const std::vector<std::string> versions = {"", "V2", "V3", "V4", "V5"};
  for (size_t v = 0; v < versions.size(); ++v) {
    OpRecord& op = suite.Op("NonMaxSuppression" + versions[v]).Reference(Suppress).NoGradient();
    op.ShapeDependsOnValues();
    const auto inputs = [&](DType dtype, DType threshold_type, int most, double overlap, double score,
                            double sigma = 0) {
      std::vector<CaseInput> all = {Make(dtype, {7, 4}, corners), Make(dtype, {7}, values), Int(most)};
      if (v >= 1) all.push_back(scalar(threshold_type, overlap));
      if (v >= 2) all.push_back(scalar(threshold_type, score));
      if (v >= 4) all.push_back(scalar(threshold_type, sigma));
      return all;
    };
    for (const DType dtype : {DType::kFloat32, DType::kHalf}) {
      if (v == 0 && dtype == DType::kHalf) continue;
      op.Tolerance(dtype == DType::kHalf ? 5e-3 : 1e-5);
      for (const bool pads : {false, true}) {
        if (pads && v < 3) continue;
        const AttrMap attrs = v < 3 ? AttrMap() : AttrMap{{"pad_to_max_output_size", pads}};
        for (const int most : {3, 10, 0}) op.Call(inputs(dtype, dtype, most, 0.5, 0.3), attrs);
        op.Call(inputs(dtype, dtype, 10, 1, 0), attrs);
        if (v == 4) op.Call(inputs(dtype, dtype, 10, 0.5, 0.1, 0.5), attrs);
        if (v >= 1 && v < 4) op.Call(inputs(dtype, DType::kFloat32, 10, 0.5, 0.3), attrs);
      }
    }
    if (v == 0) op.Call(inputs(DType::kFloat32, DType::kFloat32, 4, 0, 0), {{"iou_threshold", 0.25f}});
    const auto replaced = [&](size_t i, Tensor tensor) {
      auto all = inputs(DType::kFloat32, DType::kFloat32, 3, 0.5, 0);
      all[i] = std::move(tensor);
      return all;
    };
    op.Hostile(replaced(0, Floats({28})), "boxes must be 2-D");
    op.Hostile(replaced(0, Floats({7, 5})), "boxes must have 4 columns");
    op.Hostile(replaced(1, Floats({7, 1})), "scores must be 1-D");
    op.Hostile(replaced(1, Floats({6})), "scores has incompatible shape");
    op.Hostile(replaced(2, Ints({3})), "max_output_size must be 0-D");
    op.Hostile(replaced(2, Int(-1)), "output size must be non-negative");
    if (v == 0) op.Hostile(replaced(2, Int(1)), "iou_threshold must be in [0, 1]", {{"iou_threshold", 2.0f}});
    if (v >= 1) op.Hostile(replaced(3, scalar(DType::kFloat32, -0.5)), "iou_threshold must be in [0, 1]");
    if (v >= 1) op.Hostile(replaced(3, Floats({1})), "iou_threshold must be 0-D");
    if (v >= 2) op.Hostile(replaced(4, Floats({1})), "score_threshold must be 0-D");
    if (v == 4) op.Hostile(replaced(5, scalar(DType::kFloat32, -1)), "soft_nms_sigma_val must be >= 0.0");
    if (v >= 3) op.OutOfMemory(replaced(2, Int(kHuge)), {{"pad_to_max_output_size", true}});
  }
  OpRecord& table = suite.Op("NonMaxSuppressionWithOverlaps").Reference(Suppress).ShapeDependsOnValues();
  const auto with = [&](Tensor overlaps, Tensor scores, Tensor most) {
    return std::vector<CaseInput>{std::move(overlaps), std::move(scores), std::move(most),
                                  scalar(DType::kFloat32, 0.5), scalar(DType::kFloat32, 0.25)};
  };
  table.Call(with(Sample(DType::kFloat32, {6, 6}, 0, 1), Sample(DType::kFloat32, {6}, 0, 1), Int(4)));
  table.Call(with(Floats({0, 0}), Floats({0}), Int(4)));
  table.Hostile(with(Floats({4}), Floats({2}), Int(1)), "overlaps must be 2-D");
  table.Hostile(with(Floats({2, 3}), Floats({2}), Int(1)), "overlaps must be square");
  table.Hostile(with(Floats({2, 2}), Floats({3}), Int(1)), "scores has incompatible shape");
  table.Hostile(with(Floats({2, 2}), Floats({2}), Int(-1)), "output size must be non-negative");
}

void Combine(reference::Call& call) {
  const Array &boxes = call.in(0), &scores = call.in(1);
  const int64_t batch = boxes.dim(0), classes = scores.dim(2), per_class = call.in(2)[0].integer();
  int64_t size = call.in(3)[0].integer();
  if (call.flag("pad_per_class")) size = std::min(size, per_class * classes);
  call.outputs = {Array({batch, size, 4}), Array({batch, size}), Array({batch, size}), Array({batch})};
  for (int64_t b = 0; b < batch; ++b) {
    struct Found {
      double score;
      int64_t box, object_class;
    };
    std::vector<Found> found;
    for (int64_t c = 0; c < classes; ++c) {
      const int64_t q = boxes.dim(2) > 1 ? c : 0;
      const auto corners = [&](int64_t i) {
        Corners result;
        for (int k = 0; k < 4; ++k) result[k] = boxes.at({b, i, q, k}).real();
        return result;
      };
      std::vector<double> of_class;
      for (int64_t i = 0; i < boxes.dim(1); ++i) of_class.push_back(scores.at({b, i, c}).real());
      const Picked picked = Pick(of_class, per_class, call.in(4)[0].real(), call.in(5)[0].real(), 0,
                                 [&](int64_t i, int64_t j) { return OverlapOf(corners(i), corners(j)); });
      for (size_t k = 0; k < picked.boxes.size(); ++k)
        found.push_back({picked.scores[k], picked.boxes[k], c});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Found& x, const Found& y) { return x.score > y.score; });
    if (int64_t(found.size()) > size) found.resize(size);
    for (int64_t k = 0; k < int64_t(found.size()); ++k) {
      const int64_t q = boxes.dim(2) > 1 ? found[k].object_class : 0;
      for (int64_t j = 0; j < 4; ++j) {
        const double corner = boxes.at({b, found[k].box, q, j}).real();
        call.outputs[0].at({b, k, j}) = call.flag("clip_boxes") ? std::clamp(corner, 0.0, 1.0) : corner;
      }
      call.outputs[1].at({b, k}) = found[k].score;
      call.outputs[2].at({b, k}) = double(found[k].object_class);
    }
    call.outputs[3].at({b}) = double(found.size());
  }
}

void AddCombined(Suite& suite) {
  OpRecord& op = suite.Op("CombinedNonMaxSuppression").Reference(Combine).NoGradient();
  const auto number = [](double x) { return Make(DType::kFloat32, {}, {x}); };
  const auto inputs = [&](Tensor boxes, Tensor scores, int per_class, int total, double overlap = 0.3) {
    return std::vector<CaseInput>{std::move(boxes), std::move(scores), Int(per_class),
                                  Int(total),       number(overlap),   number(0.2)};
  };
  const Tensor shared = Sample(DType::kFloat32, {2, 6, 1, 4}, -0.2, 1.3),
               scores = Sample(DType::kFloat32, {2, 6, 3}, 0, 1);
  const Tensor own = Sample(DType::kFloat32, {2, 6, 3, 4}, -0.2, 1.3, 5);
  for (const bool pads : {false, true}) {
    for (const bool clips : {false, true}) {
      const AttrMap attrs = {{"pad_per_class", pads}, {"clip_boxes", clips}};
      op.Call(inputs(shared, scores, 2, 4), attrs).Call(inputs(own, scores, 1, 9), attrs);
      op.Call(inputs(own, scores, 5, 100), attrs);
    }
  }
  op.Hostile(inputs(Floats({6, 1, 4}), scores, 2, 4), "boxes must be 4-D");
  op.Hostile(inputs(shared, Floats({2, 6}), 2, 4), "scores must be 3-D");
  op.Hostile(inputs(shared, Floats({2, 5, 3}), 2, 4), "same batch size and number of boxes");
  op.Hostile(inputs(Floats({2, 6, 2, 4}), scores, 2, 4),
             "third dimension of boxes must be either 1 or num classes");
  op.Hostile(inputs(Floats({2, 6, 1, 5}), scores, 2, 4), "boxes must have 4 columns");
  op.Hostile(inputs(shared, scores, 0, 4), "max_size_per_class must be positive");
  op.Hostile(inputs(shared, scores, 2, -4), "max_total_size must be > 0");
  op.Hostile(inputs(shared, scores, 2, 4, 1.5), "iou_threshold must be in [0, 1]");
  op.OutOfMemory(inputs(shared, scores, 2, kHuge));
}

// ---- cutting ----

void AddDistortion(Suite& suite) {
  const Tensor size = Ints({40, 30, 3}), boxes = Make(DType::kFloat32, {1, 1, 4}, {0.1, 0.2, 0.8, 0.9});
  for (const char* name : {"SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2",
                           "StatelessSampleDistortedBoundingBox"}) {
    OpRecord& op = suite.Op(name).TestedElsewhere("tests/conformance/image/distorted_boxes_test.cc: random");
    const bool has_covered = std::string(name) != "SampleDistortedBoundingBox";
    const bool has_seed = std::string(name) == "StatelessSampleDistortedBoundingBox";
    const auto inputs = [&](Tensor s, Tensor b) {
      std::vector<CaseInput> all = {std::move(s), std::move(b)};
      if (has_covered) all.push_back(Make(DType::kFloat32, {}, {0.5}));
      if (has_seed) all.push_back(Ints({1, 2}));
      return all;
    };
    op.Hostile(inputs(Ints({40, 30}), boxes), "image_size must contain 3 elements");
    op.Hostile(inputs(Int(40), boxes), "image_size must be 1-dimensional");
    op.Hostile(inputs(Ints({-40, 30, 3}), boxes), "image height cannot be");
    op.Hostile(inputs(Longs({40, kWide, 3}), boxes), "image width cannot be");
    op.Hostile(inputs(size, Floats({1, 4})), "input boxes must be 3-dimensional");
    op.Hostile(inputs(size, Floats({1, 1, 3})), "bounding boxes must have shape");
    op.Hostile(inputs(size, Make(DType::kFloat32, {1, 1, 4}, {0, 0, 1.5, 1})), "must be in [0.0, 1.0]");
    op.Hostile(inputs(size, Floats({1, 0, 4})), "No bounding boxes provided");
    op.Hostile(inputs(size, boxes), "Area range must be less then or equal to 1.0",
               {{"area_range", std::vector<float>{0.5f, 1.5f}}});
    op.Hostile(inputs(size, boxes), "Aspect ratio range field must specify 2 dimensions",
               {{"aspect_ratio_range", std::vector<float>{0.5f}}});
    op.Hostile(inputs(size, boxes), "Aspect ratio range must be non-negative",
               {{"aspect_ratio_range", std::vector<float>{-0.5f, 1}}});
    op.Hostile(inputs(size, boxes), "Max attempts must be non-negative", {{"max_attempts", int64_t{0}}});
    if (has_covered) {
      auto all = inputs(size, boxes);
      all[2] = Make(DType::kFloat32, {}, {-1});
      op.Hostile(all, "Min object covered must be non-negative");
    } else {
      op.Hostile(inputs(size, boxes), "Min object covered must be non-negative",
                 {{"min_object_covered", -1.0f}});
    }
  }
}

}  // namespace

void AddBoxesRecords(Suite& suite) {
  AddDrawing(suite);
  AddSuppression(suite);
  AddCombined(suite);
  AddDistortion(suite);
}

}  // namespace weir::conformance
