// The ops that the runtime itself puts into a step's graph. Users never write them; names and schemas are
// TensorFlow's.
//
//   _Arg     a value fed to the step: attr index, the position among the partition's arguments; attr
//            _output_shapes, if it is set, what is known of the value's shape
//   _Retval  a value fetched from it: attr index, the position among the partition's results
//   _Send    hands its input to another device; _Recv is its other end. Attr _edge numbers the pair within
//   the plan,
//            and is all that the rendezvous needs to match them. A pair with attr _in_loop meets once in
//            every iteration. A _Recv with attr _head_start is given that many empty tensors before those
//            that are sent.
//
//   _CopyToDevice, _CopyToHost
//            the same tensor in the other memory of a device that has its own; ops of our own. A Const, or
//            another node, with attr _on_host is in the host's memory there, and computes there. A copy
//            with attr _only_fetched is read by nobody but who gets the step's results: the step waits for
//            it, and none of its nodes does.
//
// An _Arg or _Retval with an attr _edge is late: its value comes, or goes, while the step runs (partial
// runs). Attr _feed_name of such an _Arg is the output that is fed.
//
// A node with attrs group_key and instance_key, one device's part in a collective, gets _members_here: how
// many devices of its task have such a node in the step.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/op_registry.h"

namespace weir {

inline constexpr char kArgOp[] = "_Arg";
inline constexpr char kRetvalOp[] = "_Retval";
inline constexpr char kSendOp[] = "_Send";
inline constexpr char kRecvOp[] = "_Recv";
inline constexpr char kCopyToDeviceOp[] = "_CopyToDevice";
inline constexpr char kCopyToHostOp[] = "_CopyToHost";
inline constexpr char kOnHostAttr[] = "_on_host";
inline constexpr char kOnlyFetchedAttr[] = "_only_fetched";
inline constexpr char kEdgeAttr[] = "_edge";
inline constexpr char kInLoopAttr[] = "_in_loop";
inline constexpr char kHeadStartAttr[] = "_head_start";
inline constexpr char kFeedNameAttr[] = "_feed_name";
inline constexpr char kMembersHereAttr[] = "_members_here";
inline constexpr char kShapesAttr[] = "_output_shapes";

// How many iterations one device of a loop may be ahead of another (placer/partitioner.h).
inline constexpr int kLoopLead = 16;

// Whether only the runtime may use an op of this name: its own begin with an underscore, as no user's do.
bool IsRuntimeOp(absl::string_view op);

// Those above, and those of fused_ops.h.
absl::Status RegisterRuntimeOps(OpRegistry& registry);

}  // namespace weir
