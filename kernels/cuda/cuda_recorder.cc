#include "kernels/cuda/cuda_recorder.h"

#include <algorithm>
#include <utility>

#include "graph/types/status_macros.h"

namespace weir {
namespace {

// A buffer of a recording, lent to those who read what was launched: its references are theirs.
class LentBuffer final : public Buffer {
 public:
  explicit LentBuffer(RefPtr<Buffer> of) : Buffer(of->data(), of->num_bytes()), of_(std::move(of)) {}

 private:
  const RefPtr<Buffer> of_;
};

Tensor Lend(const Tensor& tensor) {
  const auto* const begin = static_cast<const char*>(tensor.buffer()->data());
  const size_t offset = static_cast<const char*>(tensor.data()) - begin;
  return Tensor(tensor.dtype(), tensor.shape(), MakeRef<LentBuffer>(tensor.buffer()), offset);
}

}  // namespace

class CudaRecorder::Graph final : public Recording {
 public:
  Graph(CudaRecorder& recorder, const CudaGraphHandle& graph, std::unique_ptr<RecordedChecks> checks,
        std::vector<Tensor> given)
      : recorder_(recorder),
        device_(recorder.device_),
        graph_(graph),
        checks_(std::move(checks)),
        given_(std::move(given)) {
    recorder_.graphs_.push_back(this);
  }
  ~Graph() override {
    recorder_.graphs_.erase(std::find(recorder_.graphs_.begin(), recorder_.graphs_.end(), this));
    device_.checks().Forget(*checks_);
    // An error is that of a lost device.
    device_.compute_stream().api().DestroyGraph(graph_).IgnoreError();
  }

  int num_pieces() const override { return graph_.num_nodes; }
  absl::Span<const Tensor> given() const override { return given_; }

  bool is_free() override {
    return std::all_of(recorder_.graphs_.begin(), recorder_.graphs_.end(),
                       [](Graph* graph) { return graph->IsUnwatched(); });
  }

  absl::Status EarlierError() override { return device_.checks().EarlierError(*checks_); }

  absl::Status Feed(const Tensor& host, const Tensor& staging) override {
    return device_.CopyInto(host, staging);
  }

  absl::Status Launch(const PendingWork& step) override {
    CudaStream& stream = device_.compute_stream();
    return device_.Noted(device_.checks().Repeat(
        step, *checks_, [&] { return stream.api().LaunchGraph(graph_, stream.handle()); }));
  }

 private:
  bool IsUnwatched() {
    return device_.checks().IsFree(*checks_) &&
           std::all_of(given_.begin(), given_.end(),
                       [](const Tensor& tensor) { return tensor.has_exclusive_buffer(); });
  }

  CudaRecorder& recorder_;
  CudaDevice& device_;
  const CudaGraphHandle graph_;
  const std::unique_ptr<RecordedChecks> checks_;
  const std::vector<Tensor> given_;
};

CudaRecorder::CudaRecorder(CudaDevice& device) : device_(device), pool_(device.allocator().MakePool()) {}

CudaRecorder::~CudaRecorder() { GiveUp(); }

absl::StatusOr<PendingWork*> CudaRecorder::Begin() {
  CudaApi& api = device_.compute_stream().api();
  if (stream_ == nullptr) {
    WEIR_ASSIGN_OR_RETURN(stream_, CudaStream::Create(api, device_.compute_stream().device()));
  }
  WEIR_RETURN_IF_ERROR(device_.Noted(api.BeginCapture(stream_->handle())));
  checks_ = std::make_unique<RecordedChecks>();
  detour_ = {.device = &device_, .stream = stream_.get(), .allocator = pool_.get()};
  CudaDevice::Take(&detour_);
  return checks_.get();
}

absl::StatusOr<CudaGraphHandle> CudaRecorder::EndCapture() {
  CudaDevice::Take(nullptr);
  absl::StatusOr<CudaGraphHandle> graph = stream_->api().EndCapture(stream_->handle());
  if (!graph.ok()) return device_.Noted(graph.status());
  return graph;
}

absl::StatusOr<std::unique_ptr<Recording>> CudaRecorder::End(const std::vector<Tensor>& given) {
  const absl::StatusOr<CudaGraphHandle> graph = EndCapture();
  if (!graph.ok()) {
    device_.checks().Forget(*checks_);
    checks_ = nullptr;
    return graph.status();
  }
  device_.checks().EndRecording(*checks_);
  std::vector<Tensor> lent;
  for (const Tensor& tensor : given) lent.push_back(Lend(tensor));
  return std::make_unique<Graph>(*this, *graph, std::move(checks_), std::move(lent));
}

void CudaRecorder::GiveUp() {
  if (checks_ == nullptr) return;
  const absl::StatusOr<CudaGraphHandle> graph = EndCapture();
  if (graph.ok()) stream_->api().DestroyGraph(*graph).IgnoreError();
  device_.checks().Forget(*checks_);
  checks_ = nullptr;
}

}  // namespace weir
