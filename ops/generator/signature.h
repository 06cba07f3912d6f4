// How an op's schema becomes a C++ function: which arguments it takes, in which order, and what it returns.
//
//   Output MatMul(GraphBuilder& g, Output a, Output b, const MatMulOptions& options = {}, SourceLocation
//   where = ...)
//
// Inputs come first, then the attrs that a caller must give, then the options: attrs with a default, and the
// name. Attrs that the inputs determine (T, N) are no arguments.
#pragma once

#include <string>
#include <vector>

#include "graph/op_def.h"

namespace weir {

struct Parameter {
  std::string name;           // as C++ writes it
  std::string type;           // "Output", "std::vector<int64_t>"...
  std::string default_value;  // "" for none
  std::string schema_name;    // of the input or attr
};

struct Signature {
  std::string function;             // the op's name, or another where C++ or Weir needs that one
  std::vector<Parameter> inputs;    // Output or std::vector<Output>
  std::vector<Parameter> required;  // attrs without default
  std::vector<Parameter> options;   // attrs with default; the name is added by whoever writes the struct
  std::vector<Parameter> outputs;   // Output or std::vector<Output>
  std::vector<std::string>
      lengths;               // per output: the C++ expression of a list's length, "" for a single tensor
  std::string return_type;   // "Node*", "Output", "std::vector<Output>" or "<Function>Outputs"
  std::string options_type;  // "NodeOptions" or "<Function>Options"

  // "Output MatMul(GraphBuilder& g, ..., SourceLocation where)", with or without default arguments.
  std::string ToString(bool with_defaults) const;
};

Signature SignatureOf(const Op& op);

// Ops whose builder functions ops/standard_ops.h writes by hand.
bool IsHandWritten(const Op& op);

}  // namespace weir
