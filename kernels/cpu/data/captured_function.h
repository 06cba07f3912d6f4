// A function of a dataset's node, with the tensors that it captures: they are its last arguments.
//
// Immutable; safe from any thread. Calls: kernels/function_caller.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/dataset.h"

namespace weir {

// What a node says of one of its functions.
class FunctionOfNode {
 public:
  // `attr`: of kind func. InvalidArgument from With when the node has no body of it.
  FunctionOfNode(const KernelConstruction& construction, absl::string_view attr);

  const std::shared_ptr<FunctionCaller>& caller() const { return caller_; }
  const std::shared_ptr<const std::string>& body() const { return body_; }
  const std::shared_ptr<FileSystem>& files() const { return files_; }
  absl::Status Check() const;

 private:
  const std::string description_;
  std::shared_ptr<FunctionCaller> caller_;
  std::shared_ptr<const std::string> body_;  // null when there is none
  std::shared_ptr<FileSystem> files_;
};

// A function that can be called with the first arguments. Copies share it.
class PreparedFunction {
 public:
  PreparedFunction() = default;
  PreparedFunction(std::shared_ptr<Function> function, const Element* captured)
      : function_(std::move(function)), captured_(captured) {}

  // A call that fails cancels what it was given, and must not cancel its caller, who may go on.
  Function::Results Run(Element arguments, Cancellation& cancellation) const {
    Cancellation own;
    const uint64_t callback =
        cancellation.OnCancel([&own](const absl::Status& reason) { own.Cancel(reason); });
    Function::Results results = function_->Run(With(std::move(arguments)), own);
    cancellation.Remove(callback);
    return results;
  }
  // `cancellation` is the call's own.
  void Start(Element arguments, Cancellation& cancellation, Function::Done done) const {
    function_->Start(With(std::move(arguments)), cancellation, std::move(done));
  }

 private:
  Element With(Element arguments) const {
    arguments.insert(arguments.end(), captured_->begin(), captured_->end());
    return arguments;
  }

  std::shared_ptr<Function> function_;
  const Element* captured_ = nullptr;  // the dataset's
};

class CapturedFunction {
 public:
  // `captured`: inputs [first, first + count) of the kernel.
  static absl::StatusOr<CapturedFunction> Create(const FunctionOfNode& function, const KernelContext& context,
                                                 int first, int count);

  // For one iterator; borrows this.
  absl::StatusOr<PreparedFunction> Prepare(IteratorContext& context) const {
    WEIR_ASSIGN_OR_RETURN(std::shared_ptr<Function> function, context.run.Prepare(body_, files_));
    return PreparedFunction(std::move(function), &captured_);
  }

 private:
  std::shared_ptr<const std::string> body_;
  std::shared_ptr<FileSystem> files_;
  Element captured_;
};

// The dataset that a function gave for an iterator of `above`. InvalidArgument, with TensorFlow's text, when
// it gave none, or one that does not fit, or that is made of too many others. `function` begins the text.
absl::StatusOr<DatasetPtr> DatasetMadeFor(const Dataset& above, absl::string_view function,
                                          const Element& results, const IteratorContext& context);
// For calls of an iterator of such a dataset.
IteratorContext Below(const Dataset& above, const IteratorContext& context);

// What a predicate gave. InvalidArgument, with TensorFlow's text, unless it is one bool.
absl::StatusOr<bool> Verdict(const Element& results);

// InvalidArgument, with TensorFlow's text, unless the results are components of these types. Their shapes are
// checked where an element leaves its iterator (CheckElement).
absl::Status CheckResults(const Element& results, const Dataset::Signature& signature);

}  // namespace weir
