// Iterators: passes over datasets that outlive steps, and what steps do with them.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status HandleShape(ShapeInference& s) {
  if (s.num_inputs() > 0) WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, PartialShape::OfRank(0));
  return OkStatus();
}

Status TwoScalarsShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return s.WithRank(1, 0).status();
}

Status ElementShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  const auto& shapes = s.attr<std::vector<PartialShape>>("output_shapes");
  if (static_cast<int>(shapes.size()) != s.num_outputs()) {
    return InvalidArgumentError(StrCat("`output_types` and `output_shapes` must be the same length: ",
                                       s.num_outputs(), " vs ", shapes.size()));
  }
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, shapes[i]);
  return OkStatus();
}

Status InitShape(ShapeInference& s) {
  for (int i = 0; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  s.set_output(0, Shape());
  return OkStatus();
}

Status ShardShape(ShapeInference& s) {
  for (int i = 1; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  return ElementShape(s);
}

// What a function gives that is compiled when it is called.
Status UnknownShapes(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, PartialShape());
  return OkStatus();
}

// The position is of an iterator; what it is saved as and read from has no shape that is known.
Status PositionShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, PartialShape());
  return OkStatus();
}

}  // namespace

std::vector<OpDef> IteratorsOps() {
  return {
      WithoutGradient("Iterator", "Gives a handle of the iterator of that name.", HandleShape),
      WithoutGradient("IteratorV2", "Gives a handle of the iterator of that name.", HandleShape),
      WithoutGradient("OneShotIterator",
                      "Gives a handle of an iterator whose dataset dataset_factory makes when it is needed.",
                      HandleShape),
      WithoutGradient("AnonymousIterator", "Gives a handle of a new iterator, which goes with the handle.",
                      HandleShape),
      WithoutGradient("AnonymousIteratorV2",
                      "Gives a handle of a new iterator, and what DeleteIterator takes.", HandleShape),
      WithoutGradient("AnonymousIteratorV3", "Gives a handle of a new iterator, which goes with the handle.",
                      HandleShape),
      WithoutGradient("DeleteIterator", "Does nothing: an iterator goes with its last handle.",
                      TwoScalarsShape),
      WithoutGradient("MakeIterator", "Begins a pass of the iterator over the dataset.", TwoScalarsShape),
      WithoutGradient("IteratorGetNext", "Gives the next element; OutOfRange at the end.", ElementShape),
      WithoutGradient("IteratorGetNextSync", "Gives the next element; OutOfRange at the end.", ElementShape),
      WithoutGradient("IteratorGetNextAsOptional",
                      "Gives an optional of the next element; of nothing at the end.", HandleShape),
      WithoutGradient("IteratorToStringHandle", "Gives a string that stands for the iterator.", HandleShape),
      WithoutGradient("IteratorFromStringHandle",
                      "Gives a handle of the iterator that the string stands for.", HandleShape),
      WithoutGradient("IteratorFromStringHandleV2",
                      "Gives a handle of the iterator that the string stands for.", HandleShape),
      WithoutGradient("MultiDeviceIterator",
                      "Gives a handle of an iterator whose elements go to several devices in turn.",
                      HandleShape),
      WithoutGradient("MultiDeviceIteratorInit",
                      "Begins a pass of the iterator over the dataset, and gives its number.", InitShape),
      WithoutGradient("MultiDeviceIteratorGetNextFromShard",
                      "Gives the next element of a device in a pass; OutOfRange at the end.", ShardShape),
      WithoutGradient("MultiDeviceIteratorToStringHandle", "Gives a string that stands for the iterator.",
                      HandleShape),
      WithoutGradient("MultiDeviceIteratorFromStringHandle",
                      "Gives a handle of the iterator that the string stands for.", HandleShape),
      WithoutGradient("RemoteCall", "Gives what a function makes of the arguments on another device.",
                      UnknownShapes),
      WithoutGradient("SerializeIterator", "Gives where the iterator is.", PositionShape),
      WithoutGradient("DeserializeIterator", "Puts the iterator where another one over an equal dataset was.",
                      PositionShape),
  };
}

}  // namespace weir
