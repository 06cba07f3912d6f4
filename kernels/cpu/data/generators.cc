// GeneratorDataset: elements that a function gives, one call after another, from a state that another
// function made, until it ends with OutOfRange. A third function is called with the state at the end, or when
// the iterator goes before it; what it gives, and its error then, are dropped.
//
// A position cannot be saved: the state may be anything.
#include <memory>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class GeneratorDataset final : public Dataset {
 public:
  struct Functions {
    CapturedFunction init;
    CapturedFunction next;
    CapturedFunction finalize;
  };
  GeneratorDataset(Signature signature, Functions functions)
      : Dataset(std::move(signature)), functions_(std::move(functions)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override;

 private:
  const Functions functions_;
};

class GeneratorIterator final : public Iterator {
 public:
  GeneratorIterator(RefPtr<const GeneratorDataset> dataset, IteratorRun& run, PreparedFunction init,
                    PreparedFunction next, PreparedFunction finalize)
      : dataset_(std::move(dataset)),
        run_(run.shared_from_this()),
        init_(std::move(init)),
        next_(std::move(next)),
        finalize_(std::move(finalize)) {}

  // This thread may not wait for the last call; a worker that ends has no threads left for it.
  ~GeneratorIterator() override {
    if (!has_begun_ || is_over_ || run_->functions() == nullptr) return;
    if (run_->functions()->end().is_cancelled()) return;
    const auto cancellation = std::make_shared<Cancellation>();
    const uint64_t end_of_worker = run_->functions()->end().OnCancel(
        [cancellation](const absl::Status& reason) { cancellation->Cancel(reason); });
    run_->BeginLastCall();
    // The call keeps the function, and what it is cancelled with.
    finalize_.Start(
        std::move(state_), *cancellation,
        [run = run_, cancellation, end_of_worker, function = finalize_](const Function::Results&) {
          run->functions()->end().Remove(end_of_worker);
          run->EndLastCall();
        });
  }

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
    if (!has_begun_) {
      WEIR_ASSIGN_OR_RETURN(state_, init_.Run({}, context.cancellation));
      has_begun_ = true;
    }
    if (is_over_) return false;
    Function::Results results = next_.Run(state_, context.cancellation);
    if (absl::IsOutOfRange(results.status())) {
      is_over_ = true;
      WEIR_RETURN_IF_ERROR(finalize_.Run(std::move(state_), context.cancellation).status());
      return false;
    }
    if (!results.ok()) return results.status();
    WEIR_RETURN_IF_ERROR(CheckResults(*results, dataset_->signature()));
    *element = *std::move(results);
    return true;
  }
  absl::Status Save(IteratorContext&, PositionWriter&) override { return NoPosition(); }
  absl::Status Restore(IteratorContext&, PositionReader&) override { return NoPosition(); }

 private:
  static absl::Status NoPosition() {
    return absl::UnimplementedError("GeneratorDataset does not support serialization");
  }

  const RefPtr<const GeneratorDataset> dataset_;
  const std::shared_ptr<IteratorRun> run_;
  const PreparedFunction init_, next_, finalize_;
  Element state_;
  bool has_begun_ = false;
  bool is_over_ = false;
};

absl::StatusOr<IteratorPtr> GeneratorDataset::MakeIterator(IteratorContext& context) const {
  WEIR_ASSIGN_OR_RETURN(PreparedFunction init, functions_.init.Prepare(context));
  WEIR_ASSIGN_OR_RETURN(PreparedFunction next, functions_.next.Prepare(context));
  WEIR_ASSIGN_OR_RETURN(PreparedFunction finalize, functions_.finalize.Prepare(context));
  return IteratorPtr(new GeneratorIterator(RefPtr<const GeneratorDataset>::Share(this), context.run,
                                           std::move(init), std::move(next), std::move(finalize)));
}

class Generator final : public DatasetKernel {
 public:
  explicit Generator(const KernelConstruction& construction)
      : DatasetKernel(construction),
        init_(construction, "init_func"),
        next_(construction, "next_func"),
        finalize_(construction, "finalize_func"),
        num_captured_{Count(construction, "Tinit_func_args"), Count(construction, "Tnext_func_args"),
                      Count(construction, "Tfinalize_func_args")} {}

 private:
  static int Count(const KernelConstruction& construction, absl::string_view attr) {
    return static_cast<int>(construction.attr<std::vector<DType>>(attr).size());
  }

  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    GeneratorDataset::Functions functions;
    WEIR_ASSIGN_OR_RETURN(functions.init, CapturedFunction::Create(init_, context, 0, num_captured_[0]));
    int first = num_captured_[0];
    WEIR_ASSIGN_OR_RETURN(functions.next, CapturedFunction::Create(next_, context, first, num_captured_[1]));
    first += num_captured_[1];
    WEIR_ASSIGN_OR_RETURN(functions.finalize,
                          CapturedFunction::Create(finalize_, context, first, num_captured_[2]));
    return SetDataset<GeneratorDataset>(context, signature, std::move(functions));
  }

  const FunctionOfNode init_, next_, finalize_;
  const int num_captured_[3];
};

}  // namespace

void RegisterGeneratorsKernels(DeviceKernels& kernels) { kernels.Add<Generator>("GeneratorDataset"); }

}  // namespace weir
