// Datasets and their iterators: sequences of elements, each a list of tensors, computed when asked for.
//
// A dataset is the value of a variant: immutable, shared by any number of iterators and threads. It owns what
// it is made of (other datasets, tensors, functions with what they capture). An iterator is one pass over it,
// used by one thread at a time; it owns its dataset and the iterators below it.
//
// Threads: Next and Restore may wait (for a function, a file, an element that another thread computes), so
// they are called only from threads that may (Kernel::may_block), never from those that run steps. What waits
// ends with Cancelled soon after IteratorContext::cancellation is cancelled. Work beside the caller (a
// prefetch, a parallel map) holds no thread while it has nothing to do. It is cancelled when its iterator
// goes, or the worker ends, and keeps what it uses until it is over: no destructor waits for it.
//
// Memory: an iterator holds what its header or file says, besides the element in its caller's hands. Buffers
// of elements that were computed ahead are bounded by their number, which the graph says, and by
// kMaxAheadBytes. An element counts there even where it is empty, or an error.
//
// Errors: those of kernels, with TensorFlow's codes and, where clients compare them, texts. After an error an
// iterator may be asked again: it goes on behind the element that failed. What it had taken of its input by
// then may be lost, as in TensorFlow: a batch that fails goes with its elements. An input that cannot go on
// (a damaged file) gives its error again, or its end. Cancellation is no error of an element: what the step
// had taken may be lost, or come in the next one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "graph/attr_value.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/data/iterator_position.h"
#include "kernels/cpu/data_flow/variant_value.h"
#include "kernels/environment.h"
#include "kernels/function_caller.h"
#include "kernels/kernel.h"

namespace weir {

using Element = std::vector<Tensor>;

// What one buffer of elements that were computed ahead may take, beyond its first element.
inline constexpr int64_t kMaxAheadBytes = int64_t{256} << 20;

// With what an element and its tensors take by themselves, the elements of windows and groups, and what lists
// and optionals hold, each value once.
int64_t NumBytes(const Element& element);
int64_t NumBytes(const absl::StatusOr<Element>& outcome);

// What all iterators below one iterator of a client share. Thread safe.
class IteratorRun : public std::enable_shared_from_this<IteratorRun> {
 public:
  // Borrows the device. `functions` may be null outside of a session: then no function can be called.
  IteratorRun(Device& device, std::shared_ptr<FunctionCaller> functions);
  ~IteratorRun() { Cancel(); }
  // Ends the work beside callers.
  void Cancel();

  Device& device() const { return device_; }
  Environment& environment() const;
  FunctionCaller* functions() const { return functions_.get(); }
  Cancellation& end() { return end_; }

  // The function of that body, prepared once for the run: what its nodes keep goes on in every repetition.
  absl::StatusOr<std::shared_ptr<Function>> Prepare(const std::shared_ptr<const std::string>& body,
                                                    const std::shared_ptr<FileSystem>& files);

  // A call that goes on when its iterator is gone.
  void BeginLastCall();
  void EndLastCall();
  // Returns when no such call goes on, or with Cancelled.
  absl::Status AwaitLastCalls(Cancellation& cancellation);

 private:
  Device& device_;
  const std::shared_ptr<FunctionCaller> functions_;
  Cancellation end_;
  uint64_t end_of_worker_ = 0;
  absl::Mutex mutex_;
  std::map<std::shared_ptr<const std::string>, std::shared_ptr<Function>> prepared_ ABSL_GUARDED_BY(mutex_);
  int num_last_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One call of Next. Passed down by reference.
struct IteratorContext {
  IteratorRun& run;
  Cancellation& cancellation;
  Threads* threads = nullptr;  // of the step; null outside of one
  // Of the iterators that led to this one by datasets that functions made: calls are as deep.
  int stages = 0;

  Allocator& allocator() const { return run.device().host_allocator(); }
  Environment& environment() const { return run.environment(); }
};

class Iterator {
 public:
  virtual ~Iterator() = default;

  // The next element, or false at the end. Asked again, it gives false again, but where TensorFlow's goes on
  // too: a map behind an element whose function ended with OutOfRange.
  virtual absl::StatusOr<bool> Next(IteratorContext& context, Element* element) = 0;

  // Where the iterator is. Restore of a new iterator of an equal dataset goes on there. InvalidArgument for
  // positions of other datasets.
  virtual absl::Status Save(IteratorContext& context, PositionWriter& position) = 0;
  virtual absl::Status Restore(IteratorContext& context, PositionReader& position) = 0;
};

using IteratorPtr = std::unique_ptr<Iterator>;

// The next element of an iterator that is below no other. OutOfRange would be taken for its end, so one of a
// function is Internal, as in TensorFlow.
absl::StatusOr<bool> AskTop(Iterator& iterator, IteratorContext& context, Element* element);

// What a dataset's kernel knows of its node.
struct DatasetNode {
  std::string op;
  AttrMap attrs;  // with the bodies of functions (graph/function_bodies.h)
};

class Dataset : public VariantValue {
 public:
  static constexpr char kTypeName[] = "Dataset";
  static constexpr int64_t kInfinite = -1;
  static constexpr int64_t kUnknown = -2;
  // Of a variant that is no dataset, for each of its depths.
  static constexpr int kStagesPerDepth = 16;
  // Datasets upon each other, or held in each other's tensors; each is some frames of the stack of whoever
  // asks for an element, or lets the last reference go.
  static constexpr int kMaxStages = 1000;
  // Datasets that one is made of, each as often as it is there: iterators of them are as many, and a question
  // to all of them (its cardinality) is as many calls.
  static constexpr int64_t kMaxParts = int64_t{1} << 18;
  // Of the options of one dataset and those that it is made of.
  static constexpr size_t kMaxOptionsBytes = size_t{1} << 20;

  // What the elements are. Fewer shapes than types: the others may have any.
  struct Signature {
    std::vector<DType> types;
    std::vector<PartialShape> shapes;
  };

  virtual absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const = 0;
  // A number, kInfinite or kUnknown. Who takes it from a file or a tensor makes kUnknown of anything below.
  virtual int64_t cardinality() const { return kUnknown; }

  // Element `index`, computed without those before it. Waits as Next does. OutOfRange outside of the dataset;
  // FailedPrecondition for one whose number of elements is infinite or not known; Unimplemented for one
  // whose elements are known only one after another.
  absl::StatusOr<Element> Get(IteratorContext& context, int64_t index) const;
  // The same of a dataset of which the caller knows that it has the element, if its own number says nothing.
  absl::StatusOr<Element> GetAsserted(IteratorContext& context, int64_t index) const;
  // The same for a client, who asks this dataset itself: a cache in memory has elements by number also where
  // their own number is infinite or not known. Datasets above it cannot say which one they want.
  virtual absl::StatusOr<Element> GetForClient(IteratorContext& context, int64_t index) const {
    return Get(context, index);
  }
  // OK when a global shuffle can take the elements in any order. FailedPrecondition, with TensorFlow's text.
  virtual absl::Status CheckAnyOrder() const;

  const Signature& signature() const { return signature_; }
  // Of elements that it holds itself.
  virtual int64_t num_bytes() const { return 0; }
  int stages() const { return stages_; }
  // Before it is shared. CountParts: of the inputs, that it is made of; InvalidArgument when that is too
  // much, or an input may not be held (kernels/cpu/data_flow/held_resource.h).
  void set_stages(int stages) { stages_ = stages; }
  absl::Status CountParts(const KernelContext& context);
  // Of TensorFlow's clients: serialized messages, one after another. After CountParts, which takes over those
  // of the inputs. InvalidArgument when they are too long.
  absl::Status AddOptions(absl::string_view options);
  absl::string_view options() const { return options_ == nullptr ? "" : absl::string_view(*options_); }
  // The node whose kernel made it, and that kernel's inputs: what pipeline.h reads. Null, and it stays as it
  // is, where no kernel did (windows, groups), or the kernel wants that (NonSerializableDataset).
  const DatasetNode* node() const { return node_.get(); }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  // Before it is shared; the first one counts.
  void set_node(const std::shared_ptr<const DatasetNode>& node) {
    if (node_ == nullptr) node_ = node;
  }
  // Whether it, or one that it is made of, is an AssertNext or AssertPrev (pipeline_checks.h).
  bool has_assertions() const { return has_assertions_; }
  void set_has_assertions() { has_assertions_ = true; }

  std::string ToString() const override { return "Dataset"; }
  int depth() const override { return 1 + stages_ / kStagesPerDepth; }
  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext&) const override;
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue&, KernelContext&) const override;

 protected:
  explicit Dataset(Signature signature) : signature_(std::move(signature)) {}

  // Precondition: 0 <= index < cardinality.
  virtual absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const;

 private:
  absl::Status AddOptionsOf(const Dataset& input);

  const Signature signature_;
  int stages_ = 1;
  int64_t num_parts_ = 1;
  std::shared_ptr<const std::string> options_;  // null: none
  std::shared_ptr<const DatasetNode> node_;
  std::vector<Tensor> inputs_;
  bool has_assertions_ = false;
};

using DatasetPtr = RefPtr<const Dataset>;

// The dataset that a scalar variant holds. InvalidArgument when there is none.
absl::StatusOr<DatasetPtr> DatasetIn(const Tensor& tensor);
// The dataset of input `index`. With `types`: those of its elements; InvalidArgument if they are others.
absl::StatusOr<DatasetPtr> DatasetInput(const KernelContext& context, int index);
absl::StatusOr<DatasetPtr> DatasetInput(const KernelContext& context, int index,
                                        absl::Span<const DType> types);
// The attrs output_types (or Toutput_types) and output_shapes of a node.
absl::StatusOr<Dataset::Signature> SignatureOf(const KernelConstruction& construction);
// The signature with shapes for all types.
std::vector<PartialShape> ShapesOf(const Dataset::Signature& signature);

// InvalidArgument, with TensorFlow's text, unless the types are those.
absl::Status CheckTypes(absl::Span<const DType> wanted, absl::Span<const DType> given);
// The same of a dataset's elements and their shapes.
absl::Status CheckFits(const Dataset::Signature& wanted, const Dataset::Signature& given);

// The stages of a dataset that is made of the tensors. InvalidArgument when they are too many, or may not be
// held.
absl::StatusOr<int> StagesOver(absl::Span<const Tensor> tensors);

// Output 0 is a new dataset of the inputs.
template <typename D, typename... Args>
absl::Status SetDataset(KernelContext& context, Args&&... args) {
  RefPtr<D> dataset = MakeRef<D>(std::forward<Args>(args)...);
  WEIR_RETURN_IF_ERROR(dataset->CountParts(context));
  context.set_output(0, VariantOf(std::move(dataset)));
  return absl::OkStatus();
}

// InvalidArgument, with TensorFlow's text, unless the element is what a node says.
absl::Status CheckElement(const Dataset::Signature& signature, const Element& element);
// The element as the node's outputs, checked.
absl::Status SetElement(KernelContext& context, const Dataset::Signature& signature, Element element);

// Says that the dataset of output 0 was made by the node, unless it is one of the inputs: then others made
// it, and have it.
void SetNode(KernelContext& context, const std::shared_ptr<const DatasetNode>& node);

// A kernel that gives a dataset: attrs are read once.
class DatasetKernel : public Kernel {
 public:
  explicit DatasetKernel(const KernelConstruction& construction)
      : signature_(SignatureOf(construction)),
        node_(std::make_shared<const DatasetNode>(
            DatasetNode{construction.node().op_name(), construction.node().attrs()})) {}

  absl::Status Compute(KernelContext& context) final {
    if (!signature_.ok()) return signature_.status();
    WEIR_RETURN_IF_ERROR(Make(context, *signature_));
    SetNode(context, node_);
    return absl::OkStatus();
  }

 private:
  virtual absl::Status Make(KernelContext& context, const Dataset::Signature& signature) = 0;

  const absl::StatusOr<Dataset::Signature> signature_;
  const std::shared_ptr<const DatasetNode> node_;
};

// An iterator over what another one gives.
class IteratorOverInput : public Iterator {
 public:
  explicit IteratorOverInput(IteratorPtr input) : input_(std::move(input)) {}

  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    return input_->Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override {
    return input_->Restore(context, position);
  }

 protected:
  IteratorPtr input_;
};

}  // namespace weir
