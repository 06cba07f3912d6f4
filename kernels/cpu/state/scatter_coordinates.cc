// ResourceScatterNd*: slices at coordinates.
#include "kernels/cpu/state/scatter.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

template <typename Op>
struct Coordinates {
  template <typename T>
  using Of = scatter::ScatterInto<Op, T, true>;
};

}  // namespace

void RegisterScatterCoordinatesKernels(DeviceKernels& kernels) {
  const scatter::Numbers numbers("T");
  const scatter::RealNumbers real("T");
  kernels.Add<Coordinates<elementwise::Add>::Of>("ResourceScatterNdAdd", numbers);
  kernels.Add<Coordinates<elementwise::Sub>::Of>("ResourceScatterNdSub", numbers);
  kernels.Add<Coordinates<elementwise::Minimum>::Of>("ResourceScatterNdMin", real);
  kernels.Add<Coordinates<elementwise::Maximum>::Of>("ResourceScatterNdMax", real);
  kernels.Register("ResourceScatterNdUpdate", {{"T", AllDTypes()}}, &scatter::CreateReplace<true>);
}

}  // namespace weir
