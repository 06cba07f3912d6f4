// Lists of tensors and optionals, the values of variants: what v2 control flow keeps for its gradients.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// The list or optional that the op gives is a scalar, and so is the one that it takes. (What makes a list of
// a tensor, which may be one of variants, is a matter of ScalarShape.)
Status HandleShape(ShapeInference& s) {
  if (s.num_inputs() > 0 && s.input_type(0) == DType::kVariant)
    WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, PartialShape());
  s.set_output(0, PartialShape::OfRank(0));
  return OkStatus();
}

// Takes one, and gives other things.
Status ValueShape(ShapeInference& s) { return s.WithRank(0, 0).status(); }

Status NumberShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return ScalarShape(s);
}

}  // namespace

std::vector<OpDef> TensorListsOps() {
  return {
      WithGradientMissing("EmptyTensorList",
                          "Gives a list without elements, which may get max_num_elements (-1: any number).",
                          HandleShape),
      WithGradientMissing("TensorListReserve",
                          "Gives a list of num_elements elements that are missing, and are read as zeros.",
                          HandleShape),
      WithGradientMissing("TensorListPushBack", "Gives the list with the tensor behind its elements.",
                          HandleShape),
      WithoutGradient("TensorListPushBackBatch",
                      "Gives each list with a row of the tensor behind its elements.",
                      [](ShapeInference& s) -> Status {
                        WEIR_RETURN_IF_ERROR(s.WithRankAtLeast(1, 1).status());
                        return UnchangedShape(s);
                      }),
      WithGradientMissing("TensorListPopBack", "Gives the list without its last element, and that.",
                          HandleShape),
      WithGradientMissing("TensorListSetItem", "Gives the list with item as its element index.", HandleShape),
      WithGradientMissing("TensorListGetItem", "Gives element index of the list.", ValueShape),
      WithGradientMissing("TensorListStack",
                          "Gives the elements of the list, which have one shape, as rows of one tensor.",
                          ValueShape),
      WithGradientMissing("TensorListGather",
                          "Gives some elements of the list, which have one shape, as rows of one tensor.",
                          ValueShape),
      WithGradientMissing("TensorListFromTensor", "Gives a list of the tensor's rows.", ScalarShape),
      WithoutGradient("TensorListLength", "Gives the number of elements of the list.", NumberShape),
      WithoutGradient("TensorListElementShape",
                      "Gives the shape of the list's elements, -1 where it is not known.", ValueShape),
      WithGradientMissing("TensorListResize",
                          "Gives the list with its first size elements; those that are new are missing.",
                          HandleShape),
      WithGradientMissing("TensorListScatter",
                          "Gives a list whose element indices[i] is row i of the tensor.", ScalarShape),
      WithGradientMissing(
          "TensorListScatterV2",
          "Gives a list of num_elements (-1: as many as needed), whose element indices[i] is row i of the "
          "tensor.",
          ScalarShape),
      WithGradientMissing(
          "TensorListScatterIntoExistingList",
          "Gives the list with row i of the tensor as its element indices[i]; it grows as needed.",
          HandleShape),
      WithGradientMissing("TensorListConcatV2",
                          "Gives the elements of the list one behind the other along their first dimension, "
                          "and their lengths "
                          "there.",
                          ValueShape),
      WithGradientMissing("TensorListSplit",
                          "Gives a list of slices of the tensor along its first dimension, of these lengths.",
                          ScalarShape),
      WithoutGradient("TensorListConcatLists",
                      "Gives a list of the elements of both; of tensors of lists, element by element.",
                      MergedShape),
      WithGradientMissing("OptionalFromValue", "Gives an optional that holds the tensors.", ScalarShape),
      WithGradientMissing("OptionalNone", "Gives an optional that holds nothing.", ScalarShape),
      WithGradientMissing("OptionalHasValue", "Says whether the optional holds tensors.", NumberShape),
      WithGradientMissing(
          "OptionalGetValue", "Gives the tensors that the optional holds; an error when there are none.",
          [](ShapeInference& s) -> Status {
            WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
            const auto& shapes = s.attr<std::vector<PartialShape>>("output_shapes");
            if (static_cast<int>(shapes.size()) != s.num_outputs()) {
              return InvalidArgumentError(StrCat("output_shapes has ", shapes.size(), " shapes for ",
                                                 s.num_outputs(), " components"));
            }
            for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, shapes[i]);
            return OkStatus();
          }),
  };
}

}  // namespace weir
