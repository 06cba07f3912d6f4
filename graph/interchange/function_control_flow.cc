// If, Case, While and For as the ops of v1 control flow: part of function_expansion.h.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "graph/interchange/function_calls.h"
#include "graph/interchange/function_expansion.h"
#include "graph/interchange/input_name.h"
#include "graph/types/status_macros.h"

namespace weir {

using ::tensorflow::DataType;
using ::tensorflow::NodeDef;

namespace {

// Branches of one Case: each takes a Switch for each argument.
constexpr int kMaxBranches = 1000;

std::string Part(const NodeDef& call, absl::string_view name) {
  return absl::StrCat(call.name(), "/_", name);
}

std::string Port(const std::string& node, int output) { return InputNameOf(node, output); }

absl::Status ScalarOf(int32_t value, AttrProto* attr) {
  attr->mutable_tensor()->set_dtype(tensorflow::DT_INT32);
  attr->mutable_tensor()->mutable_tensor_shape();
  attr->mutable_tensor()->add_int_val(value);
  return absl::OkStatus();
}

}  // namespace

absl::Status FunctionExpansion::ExpandIf(const NodeDef& call) {
  const CallInputs inputs = InputsOf(call);
  if (inputs.data.empty()) return absl::InvalidArgumentError("has no input: a condition is asked for");
  const AttrProto* const type = FindAttr(call, "Tcond");
  std::string condition = inputs.data[0];
  if (type != nullptr && type->type() != tensorflow::DT_BOOL) {
    condition = Part(call, "condition");
    WEIR_RETURN_IF_ERROR(Add(call, "ToBool", condition, {inputs.data[0]}, inputs.control, type->type()));
  }
  return AddBranches(call, {{FindAttr(call, "else_branch"), "else", condition, 0},
                            {FindAttr(call, "then_branch"), "then", condition, 1}});
}

// Branch k is taken when the index is k, the last one also when the index is that of none.
absl::Status FunctionExpansion::ExpandCase(const NodeDef& call) {
  const CallInputs inputs = InputsOf(call);
  if (inputs.data.empty())
    return absl::InvalidArgumentError("has no input: the index of a branch is asked for");
  const AttrProto* const functions = FindAttr(call, "branches");
  if (functions == nullptr || functions->list().func_size() == 0) {
    return WrongAttr(call, "branches", "a list of functions");
  }
  const int num_branches = functions->list().func_size();
  if (num_branches > kMaxBranches) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", num_branches, " branches; at most ", kMaxBranches, " can be told apart"));
  }
  const std::string& index = inputs.data[0];
  const auto constant = [&](const std::string& name, int32_t value) -> absl::Status {
    NodeDef node;
    node.set_name(name);
    node.set_op("Const");
    node.set_device(call.device());
    // In a loop it is one of every iteration.
    node.add_input(absl::StrCat("^", Part(call, "index")));
    (*node.mutable_attr())["dtype"].set_type(tensorflow::DT_INT32);
    WEIR_RETURN_IF_ERROR(ScalarOf(value, &(*node.mutable_attr())["value"]));
    return Add(std::move(node));
  };
  // A node of its own, for the index may be an output of a Switch, whose node runs in any case.
  WEIR_RETURN_IF_ERROR(Add(call, "Identity", Part(call, "index"), {index}, {}, tensorflow::DT_INT32));
  std::vector<AttrProto> attrs(num_branches);
  std::vector<Branch> branches;
  std::string others;  // whether one of the branches so far is taken
  for (int i = 0; i < num_branches; ++i) {
    *attrs[i].mutable_func() = functions->list().func(i);
    Branch branch{&attrs[i], absl::StrCat("branch", i), "", 1};
    if (i + 1 < num_branches) {
      branch.selector = Part(call, absl::StrCat("is_", i));
      const std::string number = Part(call, absl::StrCat("number_", i));
      WEIR_RETURN_IF_ERROR(constant(number, i));
      WEIR_RETURN_IF_ERROR(
          Add(call, "Equal", branch.selector, {Part(call, "index"), number}, {}, tensorflow::DT_INT32));
      const std::string any = Part(call, absl::StrCat("any_", i));
      if (!others.empty()) {
        WEIR_RETURN_IF_ERROR(
            Add(call, "LogicalOr", any, {others, branch.selector}, {}, tensorflow::DT_INVALID));
      }
      others = others.empty() ? branch.selector : any;
    } else if (others.empty()) {  // the only one: it is taken for every index
      WEIR_RETURN_IF_ERROR(Add(call, "Equal", Part(call, "is_any"),
                               {Part(call, "index"), Part(call, "index")}, {}, tensorflow::DT_INT32));
      branch.selector = Part(call, "is_any");
    } else {
      branch.selector = others;
      branch.port = 0;
    }
    branches.push_back(std::move(branch));
  }
  return AddBranches(call, branches);
}

absl::Status FunctionExpansion::AddBranches(const NodeDef& call, const std::vector<Branch>& branches) {
  std::vector<std::vector<std::string>> outputs(branches.size());
  std::vector<std::string> done(branches.size());
  std::vector<DataType> types;
  for (size_t i = 0; i < branches.size(); ++i) {
    WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<const FunctionBody> body,
                          Body(call, branches[i].function, absl::StrCat(branches[i].label, "_branch")));
    if (i == 0) types = body->result_types;
    if (body->result_types != types) {
      return absl::InvalidArgumentError(
          absl::StrCat("its branches give different tensors: ", types.size(), " of ", branches[0].label, ", ",
                       body->result_types.size(), " of ", branches[i].label, ", or others by type"));
    }
    WEIR_RETURN_IF_ERROR(CheckResults(call, *body, "Tout"));
    WEIR_RETURN_IF_ERROR(AddBranch(call, branches[i], *body, &outputs[i], &done[i]));
  }
  std::vector<std::string> merged;
  for (size_t i = 0; i < types.size(); ++i) {
    std::vector<std::string> choices;
    for (const auto& of_branch : outputs) choices.push_back(of_branch[i]);
    merged.push_back(Part(call, absl::StrCat("merge_", i)));
    WEIR_RETURN_IF_ERROR(Add(call, "Merge", merged.back(), choices, {}, types[i]));
  }
  // The call is over when the branch that was taken is.
  WEIR_RETURN_IF_ERROR(Add(call, "Merge", Part(call, "done"), done, {}, tensorflow::DT_BOOL));
  return AddResult(call, merged, types, {Part(call, "done")});
}

absl::Status FunctionExpansion::AddBranch(const NodeDef& call, const Branch& branch, const FunctionBody& body,
                                          std::vector<std::string>* outputs, std::string* done) {
  const bool was_conditional = is_conditional_;
  const absl::Cleanup leave = [&] { is_conditional_ = was_conditional; };
  is_conditional_ = true;
  const CallInputs inputs = InputsOf(call);
  WEIR_RETURN_IF_ERROR(CheckArguments(call, body, inputs.data.size() - 1));
  const std::string choice = Part(call, absl::StrCat("choice_", branch.label));
  WEIR_RETURN_IF_ERROR(
      Add(call, "Switch", choice, {branch.selector, branch.selector}, inputs.control, tensorflow::DT_BOOL));
  const std::string pivot = Part(call, absl::StrCat("pivot_", branch.label));
  WEIR_RETURN_IF_ERROR(Add(call, "Identity", pivot, {Port(choice, branch.port)}, {}, tensorflow::DT_BOOL));

  const AttrProto& function = *branch.function;
  Region region{function.func().name(), Part(call, branch.label), {}, {pivot}, call.device()};
  for (size_t i = 0; i < body.arguments.size(); ++i) {
    const std::string& input = inputs.data[i + 1];
    const DataType type = body.arguments[i].type;
    if (type == tensorflow::DT_RESOURCE) {
      region.arguments.push_back({input, /*is_gated=*/false, ""});
      continue;
    }
    const std::string name = Part(call, absl::StrCat("switch_", branch.label, "_", i));
    WEIR_RETURN_IF_ERROR(Add(call, "Switch", name, {input, branch.selector}, inputs.control, type));
    region.arguments.push_back({Port(name, branch.port), /*is_gated=*/true, ""});
  }
  WEIR_ASSIGN_OR_RETURN(const Results results, AddBody(body, region));
  for (size_t i = 0; i < results.outputs.size(); ++i) {
    outputs->push_back(results.outputs[i].input);
    if (results.outputs[i].is_gated) continue;
    outputs->back() = Part(call, absl::StrCat("result_", branch.label, "_", i));
    WEIR_RETURN_IF_ERROR(
        Add(call, "Identity", outputs->back(), {results.outputs[i].input}, {pivot}, body.result_types[i]));
  }
  *done = Part(call, absl::StrCat("done_", branch.label));
  return Add(call, "Identity", *done, {pivot}, results.effects, tensorflow::DT_BOOL);
}

namespace {

// One variable of a loop.
struct LoopVariable {
  DataType type = tensorflow::DT_INVALID;
  bool is_invariant = false;  // the body hands it on as it is
  std::string enter;
  std::string merge;
  std::string choice;
};

}  // namespace

absl::Status FunctionExpansion::ExpandWhile(const NodeDef& call) {
  const CallInputs inputs = InputsOf(call);
  if (inputs.data.empty()) return absl::UnimplementedError("a loop without loop variables");
  WEIR_ASSIGN_OR_RETURN(const auto condition, Body(call, FindAttr(call, "cond"), "cond"));
  WEIR_ASSIGN_OR_RETURN(const auto body, Body(call, FindAttr(call, "body"), "body"));
  for (const FunctionBody* function : {condition.get(), body.get()}) {
    WEIR_RETURN_IF_ERROR(CheckArguments(call, *function, inputs.data.size()));
  }
  WEIR_RETURN_IF_ERROR(CheckResults(call, *body, "T"));
  if (condition->result_types.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("its condition gives ", condition->result_types.size(), " tensors; one is asked for"));
  }
  return AddLoop(call, inputs, {FindAttr(call, "cond")->func().name(), *condition},
                 {FindAttr(call, "body")->func().name(), *body}, 0);
}

namespace {

// A node of a body that takes ints, if it has an attr T.
NodeDef BodyNode(absl::string_view op, std::string name, const std::vector<std::string>& inputs,
                 bool has_type) {
  NodeDef node;
  node.set_op(std::string(op));
  node.set_name(std::move(name));
  for (const std::string& input : inputs) node.add_input(input);
  if (has_type) (*node.mutable_attr())["T"].set_type(tensorflow::DT_INT32);
  return node;
}

// Of the variables i, limit, delta, ...: whether i is before the limit on the way that delta goes.
FunctionBody IsBeforeLimit(const std::vector<DataType>& types) {
  FunctionBody body;
  for (DataType type : types) body.arguments.push_back({"", type});
  body.nodes = {BodyNode("Sub", "zero", {"#2", "#2"}, true),
                BodyNode("Greater", "goes_up", {"#2", "zero"}, true),
                BodyNode("LogicalNot", "goes_down", {"goes_up"}, false),
                BodyNode("Less", "is_below", {"#0", "#1"}, true),
                BodyNode("Greater", "is_above", {"#0", "#1"}, true),
                BodyNode("LogicalAnd", "up", {"goes_up", "is_below"}, false),
                BodyNode("LogicalAnd", "down", {"goes_down", "is_above"}, false),
                BodyNode("LogicalOr", "goes_on", {"up", "down"}, false)};
  body.results = {"goes_on"};
  body.result_types = {tensorflow::DT_BOOL};
  return body;
}

// One iteration: the function of i and the last variables, and i + delta.
FunctionBody IterationOf(const AttrProto& function, const std::vector<DataType>& types) {
  FunctionBody body;
  NodeDef call = BodyNode("StatefulPartitionedCall", "call", {"#0"}, false);
  *(*call.mutable_attr())["f"].mutable_func() = function.func();
  body.results = {"next", "#1", "#2"};
  for (size_t i = 0; i < types.size(); ++i) {
    body.arguments.push_back({"", types[i]});
    if (i < 3) continue;
    call.add_input(absl::StrCat("#", i));
    body.results.push_back(Port("call", static_cast<int>(i) - 3));
    (*call.mutable_attr())["Tout"].mutable_list()->add_type(types[i]);
  }
  if (types.size() == 3) (*call.mutable_attr())["Tout"].mutable_list();
  body.nodes = {std::move(call), BodyNode("AddV2", "next", {"#0", "#2"}, true)};
  body.result_types = types;
  body.effects = {"call"};
  return body;
}

}  // namespace

// An Assert of a bool, with what is shown when it does not hold: a text and ints.
absl::Status FunctionExpansion::AddCheck(const NodeDef& call, absl::string_view name,
                                         const std::string& condition, absl::string_view shown,
                                         const std::vector<std::string>& ints, const std::string& after) {
  NodeDef text;
  text.set_name(Part(call, absl::StrCat(name, "_text")));
  text.set_op("Const");
  text.set_device(call.device());
  text.add_input(absl::StrCat("^", after));
  (*text.mutable_attr())["dtype"].set_type(tensorflow::DT_STRING);
  tensorflow::TensorProto& value = *(*text.mutable_attr())["value"].mutable_tensor();
  value.set_dtype(tensorflow::DT_STRING);
  value.mutable_tensor_shape();
  value.add_string_val(std::string(shown));
  NodeDef check;
  check.set_name(Part(call, name));
  check.set_op("Assert");
  check.set_device(call.device());
  check.add_input(condition);
  check.add_input(text.name());
  auto* types = (*check.mutable_attr())["T"].mutable_list();
  types->add_type(tensorflow::DT_STRING);
  for (const std::string& number : ints) {
    check.add_input(number);
    types->add_type(tensorflow::DT_INT32);
  }
  WEIR_RETURN_IF_ERROR(Add(std::move(text)));
  return Add(std::move(check));
}

// TensorFlow refuses a limit that would never be reached.
absl::Status FunctionExpansion::ExpandFor(const NodeDef& call) {
  const CallInputs inputs = InputsOf(call);
  const AttrProto* const function = FindAttr(call, "body");
  if (function == nullptr || !function->has_func()) return WrongAttr(call, "body", "a function");
  const AttrProto* const attr = FindAttr(call, "T");
  std::vector<DataType> types(3, tensorflow::DT_INT32);
  if (attr != nullptr) {
    for (int type : attr->list().type()) types.push_back(static_cast<DataType>(type));
  }
  if (inputs.data.size() != types.size()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", inputs.data.size(),
                                                   " inputs: start, limit, delta and ", types.size() - 3,
                                                   " tensors by attr 'T' are asked for"));
  }
  WEIR_ASSIGN_OR_RETURN(const auto body, Body(call, function, "body"));
  if (body->results.size() != types.size() - 3) {
    return absl::InvalidArgumentError(absl::StrCat("For loop body returned ", body->results.size(),
                                                   " arguments. Expected: ", types.size() - 3));
  }
  const std::string &start = inputs.data[0], &limit = inputs.data[1], &delta = inputs.data[2];
  const DataType ints = tensorflow::DT_INT32, none = tensorflow::DT_INVALID;
  const auto part = [&](absl::string_view name) { return Part(call, name); };
  std::vector<std::string> ranks;
  for (int i = 0; i < 3; ++i) {
    ranks.push_back(part(absl::StrCat("rank_", i)));
    WEIR_RETURN_IF_ERROR(Add(call, "Rank", ranks.back(), {inputs.data[i]}, inputs.control, ints));
  }
  WEIR_RETURN_IF_ERROR(Add(call, "AddV2", part("two_ranks"), {ranks[0], ranks[1]}, {}, ints));
  WEIR_RETURN_IF_ERROR(Add(call, "AddV2", part("all_ranks"), {part("two_ranks"), ranks[2]}, {}, ints));
  WEIR_RETURN_IF_ERROR(Add(call, "Sub", part("no_rank"), {ranks[0], ranks[0]}, {}, ints));
  WEIR_RETURN_IF_ERROR(
      Add(call, "Equal", part("are_scalars"), {part("all_ranks"), part("no_rank")}, {}, ints));
  WEIR_RETURN_IF_ERROR(Add(call, "Sub", part("zero"), {delta, delta}, inputs.control, ints));
  WEIR_RETURN_IF_ERROR(Add(call, "Greater", part("goes_up"), {delta, part("zero")}, {}, ints));
  WEIR_RETURN_IF_ERROR(Add(call, "Less", part("goes_down"), {delta, part("zero")}, {}, ints));
  WEIR_RETURN_IF_ERROR(Add(call, "LessEqual", part("is_below"), {start, limit}, {}, ints));
  WEIR_RETURN_IF_ERROR(Add(call, "GreaterEqual", part("is_above"), {start, limit}, {}, ints));
  WEIR_RETURN_IF_ERROR(
      Add(call, "LogicalOr", part("may_be_above"), {part("is_below"), part("goes_down")}, {}, none));
  WEIR_RETURN_IF_ERROR(
      Add(call, "LogicalOr", part("may_be_below"), {part("is_above"), part("goes_up")}, {}, none));
  WEIR_RETURN_IF_ERROR(
      Add(call, "LogicalAnd", part("is_valid"), {part("may_be_above"), part("may_be_below")}, {}, none));
  WEIR_RETURN_IF_ERROR(AddCheck(call, "check_ranks", part("are_scalars"),
                                "start, limit and delta: each must be a scalar", ranks, part("zero")));
  WEIR_RETURN_IF_ERROR(AddCheck(call, "check", part("is_valid"),
                                "Invalid start/limit/delta: ", {start, limit, delta}, part("check_ranks")));

  CallInputs checked = inputs;
  checked.control.push_back(part("check"));
  return AddLoop(call, checked, {absl::StrCat(call.name(), "/_cond"), IsBeforeLimit(types)},
                 {absl::StrCat(call.name(), "/_body"), IterationOf(*function, types)}, 3);
}

absl::Status FunctionExpansion::AddLoop(const NodeDef& call, const CallInputs& inputs,
                                        const LoopPart& condition, const LoopPart& body,
                                        size_t first_result) {
  const bool was_conditional = is_conditional_;
  const absl::Cleanup leave = [&] { is_conditional_ = was_conditional; };
  is_conditional_ = true;
  std::vector<LoopVariable> variables(inputs.data.size());
  if (body.body.result_types.size() != variables.size()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", variables.size(),
                                                   " loop variables; its body gives ",
                                                   body.body.result_types.size(), " tensors"));
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    variables[i].type = body.body.result_types[i];
    variables[i].is_invariant = ArgumentNumber(body.body.results[i]) == static_cast<int>(i);
  }
  // Some variable leads from one iteration to the next.
  if (std::all_of(variables.begin(), variables.end(), [](const auto& v) { return v.is_invariant; })) {
    variables[0].is_invariant = false;
  }
  const size_t first =
      std::find_if(variables.begin(), variables.end(), [](const auto& v) { return !v.is_invariant; }) -
      variables.begin();

  const AttrProto* const parallel = FindAttr(call, "parallel_iterations");
  for (size_t i = 0; i < variables.size(); ++i) {
    LoopVariable& variable = variables[i];
    NodeDef enter;
    variable.enter = Part(call, absl::StrCat("enter_", i));
    enter.set_name(variable.enter);
    enter.set_op("Enter");
    enter.set_device(call.device());
    enter.add_input(inputs.data[i]);
    for (const std::string& before : inputs.control) enter.add_input(absl::StrCat("^", before));
    (*enter.mutable_attr())["T"].set_type(variable.type);
    (*enter.mutable_attr())["frame_name"].set_s(call.name());
    (*enter.mutable_attr())["is_constant"].set_b(variable.is_invariant);
    if (parallel != nullptr) (*enter.mutable_attr())["parallel_iterations"] = *parallel;
    WEIR_RETURN_IF_ERROR(Add(std::move(enter)));
    if (variable.is_invariant) continue;
    variable.merge = Part(call, absl::StrCat("merge_", i));
    WEIR_RETURN_IF_ERROR(Add(call, "Merge", variable.merge,
                             {variable.enter, Part(call, absl::StrCat("next_", i))}, {}, variable.type));
  }

  Region region{condition.function, Part(call, "cond"), {}, {variables[first].merge}, call.device()};
  for (const LoopVariable& variable : variables) {
    region.arguments.push_back(
        {variable.is_invariant ? variable.enter : variable.merge, !variable.is_invariant, ""});
  }
  WEIR_ASSIGN_OR_RETURN(const Results goes_on, AddBody(condition.body, region));
  std::vector<std::string> after_condition = goes_on.effects;
  if (!goes_on.outputs[0].is_gated) after_condition.push_back(variables[first].merge);
  std::string goes_on_input = goes_on.outputs[0].input;
  if (condition.body.result_types[0] != tensorflow::DT_BOOL) {
    WEIR_RETURN_IF_ERROR(Add(call, "ToBool", Part(call, "goes_on"), {goes_on_input}, after_condition,
                             condition.body.result_types[0]));
    goes_on_input = Part(call, "goes_on");
  }
  const std::string loop_cond = Part(call, "loop_cond");
  WEIR_RETURN_IF_ERROR(
      Add(call, "LoopCond", loop_cond, {goes_on_input}, after_condition, tensorflow::DT_INVALID));

  const std::string pivot = Part(call, "pivot");
  region = Region{body.function, Part(call, "body"), {}, {pivot}, call.device()};
  for (size_t i = 0; i < variables.size(); ++i) {
    LoopVariable& variable = variables[i];
    if (variable.is_invariant) {
      region.arguments.push_back({variable.enter, /*is_gated=*/false, ""});
      continue;
    }
    variable.choice = Part(call, absl::StrCat("switch_", i));
    WEIR_RETURN_IF_ERROR(
        Add(call, "Switch", variable.choice, {variable.merge, loop_cond}, {}, variable.type));
    region.arguments.push_back({Port(variable.choice, 1), /*is_gated=*/true, ""});
  }
  WEIR_RETURN_IF_ERROR(
      Add(call, "Identity", pivot, {Port(variables[first].choice, 1)}, {}, variables[first].type));
  WEIR_ASSIGN_OR_RETURN(const Results next, AddBody(body.body, region));

  std::vector<std::string> outputs;
  for (size_t i = 0; i < variables.size(); ++i) {
    const LoopVariable& variable = variables[i];
    if (variable.is_invariant) {
      outputs.push_back(inputs.data[i]);
      continue;
    }
    // An iteration begins when the effects of the one before have happened.
    std::vector<std::string> before = next.effects;
    if (!next.outputs[i].is_gated) before.push_back(pivot);
    WEIR_RETURN_IF_ERROR(Add(call, "NextIteration", Part(call, absl::StrCat("next_", i)),
                             {next.outputs[i].input}, before, variable.type));
    outputs.push_back(Part(call, absl::StrCat("exit_", i)));
    WEIR_RETURN_IF_ERROR(Add(call, "Exit", outputs.back(), {Port(variable.choice, 0)}, {}, variable.type));
  }
  // A call without results is over when its loop is. A loop runs also for the sake of a result that it hands
  // on unchanged: as in TensorFlow that is there when the condition has ended the loop, with all that leads
  // to it. What is handed on unchanged is there without the loop: in an outer loop also in its last
  // iteration.
  std::vector<std::string> after = inputs.control;
  const bool hands_on =
      std::any_of(variables.begin() + static_cast<std::ptrdiff_t>(first_result), variables.end(),
                  [](const LoopVariable& one) { return one.is_invariant; });
  if (outputs.size() == first_result || hands_on) {
    after.push_back(Part(call, absl::StrCat("exit_", first)));
  }
  return AddResult(call, {outputs.begin() + first_result, outputs.end()},
                   {body.body.result_types.begin() + first_result, body.body.result_types.end()}, after);
}

}  // namespace weir
