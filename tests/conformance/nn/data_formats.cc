// What is said of dimensions, in the order of another data format.
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;

void DataFormatDimMap(reference::Call& call) {
  const std::string &source = call.text("src_format"), &target = call.text("dst_format");
  const auto rank = static_cast<int64_t>(source.size());
  call.outputs[0] = Generate(call.in(0).dims(), [&](const Index& at) {
    int64_t dim = call.in(0).at(at).integer();
    if (dim < -rank) {
      dim = dim % rank == 0 ? 0 : rank - 1;
    } else if (dim < 0) {
      dim += rank;
    }
    while (dim >= rank) dim -= rank;
    return Value(static_cast<double>(target.find(source[dim])));
  });
}

// The rows are those of all dimensions, or of the dimensions of space alone.
void DataFormatVecPermute(reference::Call& call) {
  const Array& x = call.in(0);
  std::string source = call.text("src_format"), target = call.text("dst_format");
  if (x.dim(0) < static_cast<int64_t>(source.size())) {
    for (std::string* format : {&source, &target}) {
      for (const char letter : {'N', 'C'}) format->erase(format->find(letter), 1);
    }
  }
  call.outputs[0] = Generate(x.dims(), [&](Index at) {
    at[0] = static_cast<int64_t>(source.find(target[at[0]]));
    return x.at(at);
  });
}

AttrMap Formats(const char* source, const char* target) {
  return {{"src_format", std::string(source)}, {"dst_format", std::string(target)}};
}

}  // namespace

void AddDataFormatsRecords(Suite& suite) {
  OpRecord& dims = suite.Op("DataFormatDimMap").Reference(DataFormatDimMap);
  OpRecord& rows = suite.Op("DataFormatVecPermute").Reference(DataFormatVecPermute);
  for (const D d : {D::kInt32, D::kInt64}) {
    for (const char* target : {"NHWC", "NCHW", "HWNC", "CWHN"}) {
      dims.Call({Make(d, {4}, {0, 1, 2, 3})}, Formats("NHWC", target))
          .Call({Make(d, {2, 4}, {-1, -2, -3, -4, 4, -5, 9, -12})}, Formats("NCHW", target))
          .Call({Make(d, {5}, {-6, -7, -8, -9, -11})}, Formats("NHWC", target));
      rows.Call({Make(d, {4}, {7, 4, 9, 3})}, Formats("NHWC", target))
          .Call({Make(d, {2}, {7, 4})}, Formats("NHWC", target))
          .Call({Make(d, {2, 2}, {7, 4, 5, 1})}, Formats("NCHW", target))
          .Call({Make(d, {4, 2}, {7, 4, 9, 3, 5, 1, 2, 8})}, Formats("NHWC", target));
    }
    dims.Call({Make(d, {6}, {0, 1, 2, 3, 4, -1})}, Formats("NDHWC", "NCDHW"))
        .Call({Make(d, {4}, {-5, -6, -9, -10})}, Formats("NDHWC", "NCDHW"));
    for (const char* target : {"NCDHW", "WHDCN"}) {
      rows.Call({Make(d, {5}, {7, 4, 9, 3, 5})}, Formats("NDHWC", target))
          .Call({Make(d, {3}, {7, 4, 9})}, Formats("NDHWC", target))
          .Call({Make(d, {3, 2}, {7, 4, 9, 3, 5, 1})}, Formats("NDHWC", target));
    }
  }
  dims.Call({Int(-1)}, Formats("abcd", "dcba")).Call({Ints({})}, Formats("NHWC", "NCHW"));
  rows.Call({Ints({7, 4, 9, 3})}, Formats("abcd", "dcba"));

  for (OpRecord* record : {&dims, &rows}) {
    const Tensor x = Ints({1, 2, 3, 0});
    record
        ->Hostile({x}, "Source format must be of length 4 or 5, received src_format = NHW",
                  Formats("NHW", "NCHW"))
        .Hostile({x}, "Destination format must be of length 4 or 5, received dst_format = NHWCDE",
                 Formats("NHWC", "NHWCDE"))
        .Hostile({x}, "Destination and source format must determine a permutation, got NHWC and NHWCD",
                 Formats("NHWC", "NHWCD"))
        .Hostile({x}, "must determine a permutation, got NHWC and NHXC", Formats("NHWC", "NHXC"))
        .Hostile({x}, "must determine a permutation, got NHHC and NHHC", Formats("NHHC", "NHHC"))
        .Hostile({x}, "must determine a permutation, got NHWC and NHCC", Formats("NHWC", "NHCC"));
  }
  rows.Hostile({Int(1)}, "input must be a vector or 2D tensor, but got shape []")
      .Hostile({Make(D::kInt32, {1, 1, 1}, {1})},
               "input must be a vector or 2D tensor, but got shape [1,1,1]")
      .Hostile({Ints({1, 2, 3})}, "1D input must be of size 2 or 4, but got shape [3]")
      .Hostile({Ints({1, 2})}, "1D input must be of size 3 or 5, but got shape [2]",
               Formats("NDHWC", "NCDHW"))
      .Hostile({Sample(D::kInt32, {3, 2})},
               "First dimension of 2D input must be of size 2 or 4, but got shape [3,2]")
      .Hostile({Sample(D::kInt32, {4, 3})},
               "Second dimension of 2D input must be of size 2, but got shape [4,3]")
      .Hostile({Ints({1, 2})}, "Format specifier must contain H and W for 2D case", Formats("abcd", "dcba"))
      .Hostile({Ints({1, 2, 3})}, "Format specifier must contain D, H and W for 3D case",
               Formats("abcde", "edcba"));
}

}  // namespace weir::conformance
