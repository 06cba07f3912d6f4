// The element of a kResource tensor: names a resource of one device and, in the process that owns it, holds
// it.
//
// A handle travels by name only (device, container, name, type_name); `resource` is null in a handle that was
// parsed from a message. Resource edges never cross devices (the placer keeps them together), so a kernel
// that is handed such a handle looks it up by name.
#pragma once

#include <string>

#include "graph/types/ref_counted.h"

namespace weir {

// State that outlives steps and is shared by name on a device: a variable, a queue, a table...
// Thread safety: every subclass is safe to use from many threads.
class Resource : public RefCounted {
 public:
  // For people: "Variable float[784,300], initialized".
  virtual std::string ToString() const = 0;
};

struct ResourceHandle {
  std::string device;
  std::string container;
  std::string name;
  std::string type_name;
  RefPtr<Resource> resource;
};

}  // namespace weir
