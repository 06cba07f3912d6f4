// TensorMaps: maps from tensors to tensors, which variants hold.
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/tensor_map.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// The map and the key of a call.
struct Place {
  const TensorMap* map;
  const Tensor& key;
};

absl::StatusOr<Place> PlaceIn(const KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const TensorMap* map, VariantInput<TensorMap>(context, 0));
  WEIR_RETURN_IF_ERROR(TensorMap::CheckKey(context.input(1)));
  return Place{map, context.input(1)};
}

absl::Status NoSuchKey(const char* wish, const Tensor& key) {
  return absl::InvalidArgumentError(
      absl::StrCat("Trying to ", wish, ". Could not find key \"", key.ToString(), "\"."));
}

absl::Status Empty(KernelContext& context) {
  context.set_output(0, VariantOf(MakeRef<TensorMap>()));
  return absl::OkStatus();
}

absl::Status Size(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const TensorMap* map, VariantInput<TensorMap>(context, 0));
  WEIR_ASSIGN_OR_RETURN(Tensor * size, context.AllocateOutput(0, Shape()));
  size->flat<int32_t>()[0] = static_cast<int32_t>(map->size());
  return absl::OkStatus();
}

absl::Status Insert(KernelContext& context) {
  WEIR_RETURN_IF_ERROR(PlaceIn(context).status());
  WEIR_ASSIGN_OR_RETURN(TensorMap * map, MutableVariant<TensorMap>(context, 0, 0));
  return map->Insert(context.input(1), context.input(2));
}

absl::Status Lookup(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Place place, PlaceIn(context));
  const Tensor* const value = place.map->Find(place.key);
  if (value == nullptr) return NoSuchKey("lookup non-existent key", place.key);
  if (value->dtype() != context.output_type(0)) {
    return absl::InvalidArgumentError(absl::StrCat("value_dtype is ", DTypeName(context.output_type(0)),
                                                   ", the value of the key is ", value->ToString()));
  }
  context.set_output(0, *value);
  return absl::OkStatus();
}

absl::Status Erase(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Place place, PlaceIn(context));
  if (place.map->Find(place.key) == nullptr) return NoSuchKey("erase non-existent item", place.key);
  WEIR_ASSIGN_OR_RETURN(TensorMap * map, MutableVariant<TensorMap>(context, 0, 0));
  map->Erase(context.input(1));
  return absl::OkStatus();
}

absl::Status HasKey(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Place place, PlaceIn(context));
  WEIR_ASSIGN_OR_RETURN(Tensor * has_key, context.AllocateOutput(0, Shape()));
  has_key->flat<bool>()[0] = place.map->Find(place.key) != nullptr;
  return absl::OkStatus();
}

// All keys as rows of one tensor.
absl::Status StackKeys(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const TensorMap* map, VariantInput<TensorMap>(context, 0));
  if (map->size() == 0)
    return absl::InvalidArgumentError("TensorMapStackKeys cannot be called on empty map.");
  Tensor* keys = nullptr;
  int64_t row = 0;
  return map->ForEach([&](const Tensor& key, const Tensor&) {
    if (key.dtype() != context.output_type(0)) {
      return absl::InvalidArgumentError(absl::StrCat("Key does not match requested dtype. key_dtype is ",
                                                     DTypeName(context.output_type(0)), ", one key is ",
                                                     key.ToString()));
    }
    if (keys == nullptr) {
      Dims dims = {map->size()};
      dims.insert(dims.end(), key.shape().dims().begin(), key.shape().dims().end());
      WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
      WEIR_ASSIGN_OR_RETURN(keys, context.AllocateOutput(0, shape));
    } else if (key.shape().dims() != keys->shape().dims().subspan(1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("Keys must all have the same shape. One is ", key.shape().ToString(),
                       ", with one before it the keys are ", keys->shape().ToString()));
    }
    CopyElements(key, 0, *keys, row++ * key.num_elements(), key.num_elements());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterTensorMapsKernels(DeviceKernels& kernels) {
  kernels.Add<&Empty>("EmptyTensorMap");
  kernels.Add<&Size>("TensorMapSize");
  kernels.Add<&Insert>("TensorMapInsert");
  kernels.Add<&Lookup>("TensorMapLookup");
  kernels.Add<&Erase>("TensorMapErase");
  kernels.Add<&HasKey>("TensorMapHasKey");
  kernels.Add<&StackKeys>("TensorMapStackKeys");
}

}  // namespace weir
