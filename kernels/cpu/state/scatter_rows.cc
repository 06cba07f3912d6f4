// ResourceScatter*: slices along the first dimension of a variable.
#include "kernels/cpu/state/scatter.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

template <typename Op>
struct Rows {
  template <typename T>
  using Of = scatter::ScatterInto<Op, T, false>;
};

}  // namespace

void RegisterScatterRowsKernels(DeviceKernels& kernels) {
  const scatter::Numbers numbers("dtype");
  const scatter::RealNumbers real("dtype");
  kernels.Add<Rows<elementwise::Add>::Of>("ResourceScatterAdd", numbers);
  kernels.Add<Rows<elementwise::Sub>::Of>("ResourceScatterSub", numbers);
  kernels.Add<Rows<elementwise::Mul>::Of>("ResourceScatterMul", numbers);
  kernels.Add<Rows<elementwise::Div>::Of>("ResourceScatterDiv", numbers);
  kernels.Add<Rows<elementwise::Minimum>::Of>("ResourceScatterMin", real);
  kernels.Add<Rows<elementwise::Maximum>::Of>("ResourceScatterMax", real);
  kernels.Register("ResourceScatterUpdate", {{"dtype", AllDTypes()}}, &scatter::CreateReplace<false>);
}

}  // namespace weir
