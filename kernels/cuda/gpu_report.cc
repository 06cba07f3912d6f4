#include "kernels/cuda/gpu_report.h"

#include "absl/strings/str_cat.h"
#include "graph/types/human_bytes.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_error.h"

namespace weir {
namespace {

// 13020 is 13.2.
std::string VersionText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

GpuReport::Line LineOf(CudaApi& api, int number) {
  const std::string name = absl::StrCat("GPU ", number, ": ");
  const absl::StatusOr<CudaDeviceProperties> properties = api.Properties(number);
  if (!properties.ok()) return {false, absl::StrCat(name, properties.status().message())};
  const std::string text = name + Describe(*properties);
  if (const std::string lack = WhyTooOld(*properties); !lack.empty()) {
    return {false, absl::StrCat(text, ": ", lack)};
  }
  const absl::StatusOr<CudaMemory> memory = api.Memory(number);
  if (!memory.ok()) return {false, absl::StrCat(text, ": ", memory.status().message())};
  return {true, absl::StrCat(text, ", ", HumanBytes(memory->free), " free")};
}

}  // namespace

std::string WhyNoGpu(CudaApi& api, const absl::Status& status) {
  const absl::StatusOr<CudaVersions> versions = api.Versions();
  if (CudaErrorNumberOf(status) == kCudaInsufficientDriver && versions.ok()) {
    if (versions->driver == 0) return "there is no NVIDIA driver on this machine";
    return absl::StrCat("the NVIDIA driver is too old: it runs CUDA ", VersionText(versions->driver),
                        ", and this program needs ", VersionText(versions->runtime));
  }
  if (CudaErrorNumberOf(status) == kCudaNoDevice) {
    return "the NVIDIA driver sees no GPU (or CUDA_VISIBLE_DEVICES hides them all)";
  }
  return std::string(status.message());
}

GpuReport ReportGpus(CudaApi* api, CudaLibraries& libraries) {
  GpuReport report;
  if (api == nullptr) {
    report.why_none = "this program was built without CUDA";
    return report;
  }
  const absl::StatusOr<int> count = api->NumDevices();
  if (!count.ok()) {
    report.why_none = WhyNoGpu(*api, count.status());
    return report;
  }
  if (const absl::StatusOr<CudaVersions> versions = api->Versions(); versions.ok()) {
    report.versions = absl::StrCat("driver for CUDA ", VersionText(versions->driver), ", runtime ",
                                   VersionText(versions->runtime));
  }
  for (int number = 0; number < *count; ++number) report.gpus.push_back(LineOf(*api, number));
  for (const CudaLibrary& library : CudaLibraryList()) {
    const absl::StatusOr<int> version = libraries.Open(library);
    report.libraries.push_back(
        {version.ok(), version.ok() ? absl::StrCat(library.name, " ", CudaLibraryVersion(*version))
                                    : std::string(version.status().message())});
  }
  return report;
}

}  // namespace weir
