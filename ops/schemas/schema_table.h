// The schemas of TensorFlow's ops: inputs, outputs, attrs, defaults. Each is written once, in tensorflow.txt.
//
// The table holds more ops than Weir has: what an op of a graph looks like is known even where no kernel
// exists. write_schemas.py writes it from TensorFlow's own registry; tests/interop compares the two.
//
// Format: one block for each op, in the specification language of graph/op_def.cc.
//   op NAME [stateful] [commutative]
//   in SPEC | out SPEC | attr SPEC     SPEC of a reference input or output ends in " &"
//
// Thread safety: fixed after Parse.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/op_def.h"

namespace weir {

class SchemaTable {
 public:
  // Borrows the text. InvalidArgument naming the line that is none of the above, or the op that stands twice.
  static absl::StatusOr<SchemaTable> Parse(absl::string_view text);
  // The table that is built in; lives as long as the process.
  static const SchemaTable& TensorFlow();

  bool Contains(absl::string_view op) const { return blocks_.contains(op); }

  // Fills inputs, outputs, attrs, is_stateful and is_commutative of the op that `def` names.
  // Possible errors: NotFound (no such op: an op of our own begins with "Weir" or '_' and brings its schema),
  // InvalidArgument (`def` repeats what the table says), Unimplemented (the op has arguments that
  // are references to other things than strings).
  absl::Status Complete(OpDef& def) const;

 private:
  // Of each op: its block, from the word after "op".
  absl::flat_hash_map<absl::string_view, absl::string_view> blocks_;
};

}  // namespace weir
