// Machines of a cluster, each a network namespace with a link to one bridge: what TCP, ARP and the resolver
// do when a cable is pulled is the kernel's own.
//
// Every machine has an address, 10.77.0.2 and so on, and a file of host names of its own. They go with the
// object. Needs root and the command `ip` (iproute2). All bridges are in a network namespace of this process,
// which goes with it: runs side by side do not meet, and one that is killed leaves nothing.
//
// Thread safety: none; several objects may exist at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir {

class Machines {
 public:
  // OK, or why this process may not make them. To be called before the threads that make them are: the first
  // call puts the calling thread, and what it starts, into namespaces of this process.
  static absl::Status AreAllowed();

  // `name` is that of all of them, of letters and digits, at most 8.
  explicit Machines(std::string name) : name_(std::move(name)) {}
  ~Machines();

  // Errors: what `ip` could not do. Machines are numbered from 0.
  absl::Status Make(int count);

  static std::string AddressOf(int machine);
  // Before a command that shall run there.
  std::vector<std::string> Prefix(int machine) const;
  absl::Status SetLink(int machine, bool is_up);
  // 0: as fast as it goes.
  absl::Status SetRate(int machine, int kilobits_per_second);
  // What the host name stands for, on all machines but `except`; an empty address: nothing.
  void SetName(const std::string& host, const std::string& address, int except = -1);

 private:
  std::string NamespaceOf(int machine) const;
  std::string LinkOf(int machine) const;
  void RemoveAll(int count) const;
  void WriteHosts(int machine) const;

  const std::string name_;
  int count_ = 0;
  std::map<int, std::map<std::string, std::string>> hosts_;  // by machine
};

}  // namespace weir
