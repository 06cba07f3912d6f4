// DecodeWav and EncodeWav.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/string_room.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/wav.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// Channels beyond those of the file repeat its last one; frames beyond its end are silent.
class DecodeWav final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    for (const char* name : {"desired_channels", "desired_samples"}) {
      const auto wish = construction.attr<int64_t>(name);
      if (wish < -1) return InvalidArgumentError(StrCat(name, " must be >= -1, got ", wish));
    }
    return std::make_unique<DecodeWav>(construction);
  }
  explicit DecodeWav(const KernelConstruction& construction)
      : channels_(construction.attr<int64_t>("desired_channels")),
        frames_(construction.attr<int64_t>("desired_samples")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& contents = context.input(0);
    if (contents.shape().rank() != 0) {
      return InvalidArgumentError(StrCat("contents must be scalar, got shape ", contents.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const WavSound sound, ReadWav(contents.scalar<std::string>()));
    const int64_t frames = frames_ == -1 ? sound.frames : frames_;
    const int64_t channels = channels_ == -1 ? sound.channels : channels_;
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({frames, channels}));
    WEIR_ASSIGN_OR_RETURN(Tensor * audio, context.AllocateOutput(0, shape));
    float* to = audio->flat<float>().data();
    for (int64_t i = 0; channels > 0 && i < frames; ++i) {
      for (int64_t c = 0; c < channels; ++c) {
        *to++ = i < sound.frames ? sound.sample(i, std::min(c, sound.channels - 1)) : 0;
      }
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * rate, context.AllocateOutput(1, Shape()));
    rate->flat<int32_t>()[0] = static_cast<int32_t>(sound.rate);
    return absl::OkStatus();
  }

 private:
  const int64_t channels_, frames_;
};

absl::Status EncodeWav(KernelContext& context) {
  const Tensor& audio = context.input(0);
  if (audio.shape().rank() != 2)
    return InvalidArgumentError(StrCat("audio must be 2-dimensional", audio.shape().ToString()));
  if (context.input(1).shape().rank() != 0) {
    return InvalidArgumentError(StrCat("Input sample_rate should be a scalar tensor, got ",
                                       context.input(1).shape().ToString(), " instead."));
  }
  WEIR_RETURN_IF_ERROR(CheckRoom(context, audio.num_elements(), 2));
  WEIR_ASSIGN_OR_RETURN(std::string file,
                        WriteWav(audio.flat<float>(), audio.shape().dim(1), IntegerAt(context.input(1), 0)));
  WEIR_ASSIGN_OR_RETURN(Tensor * contents, context.AllocateOutput(0, Shape()));
  contents->flat<std::string>()[0] = std::move(file);
  return absl::OkStatus();
}

}  // namespace

void RegisterSoundsKernels(DeviceKernels& kernels) {
  kernels.Add<DecodeWav>("DecodeWav");
  kernels.Add<&EncodeWav>("EncodeWav");
}

}  // namespace weir
