// What callers of a model see of its graph: TensorFlow's SignatureDef. It gives outputs of the graph names
// that stay when the graph changes.
//
// Values; functions without state, safe from any thread.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/types/tensor.h"

namespace tensorflow {
class SignatureDef;
}  // namespace tensorflow

namespace weir {

struct SignatureTensor {
  std::string name;  // in the graph: "x:0"; empty for one that is made of several (sparse, ragged)
  DType dtype = DType::kInvalid;
  PartialShape shape;
};

struct Signature {
  // By the names that callers use.
  std::map<std::string, SignatureTensor> inputs;
  std::map<std::string, SignatureTensor> outputs;
  std::map<std::string, Tensor> defaults;  // of inputs that callers may leave out
  std::string method_name = "tensorflow/serving/predict";
};

// One for outputs of a graph, of which none may be null (precondition).
Signature SignatureOf(const std::map<std::string, Output>& inputs,
                      const std::map<std::string, Output>& outputs);

// Checks names, dtypes and shapes against the graph, where the name of a reference to a variable stands for
// its value (Graph::FindValue). `what` begins the errors: NotFound for a name that the graph does not have
// (or that was left out of its import: the reason), InvalidArgument for another dtype or a shape that cannot
// be.
absl::Status CheckSignature(const Signature& signature, absl::string_view what, const Graph& graph);

// `what` begins the errors: InvalidArgument for a dtype, a shape or a default value that cannot be read.
absl::StatusOr<Signature> SignatureFromProto(const tensorflow::SignatureDef& proto, absl::string_view what);
absl::Status SignatureToProto(const Signature& signature, tensorflow::SignatureDef* proto);

}  // namespace weir
