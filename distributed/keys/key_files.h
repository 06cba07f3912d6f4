// Makes the keys of a job: a CA, a certificate for each host, and a token, as files (`weir keys`).
//
// A task shows its host's certificate as a server and as a caller, and checks that of the other end with the
// CA (security.h). The CA's own key can sign further certificates, so who has it can join the job: it is kept
// out of the hosts' folders.
//
//   DIR/ca.pem, DIR/ca.key          the CA; the key is wanted only to make more certificates
//   DIR/token                       the secret that every call carries
//   DIR/HOST/cert.pem, key.pem, ca.pem, token   what a task on HOST needs
//   DIR/JOB-INDEX/...               the same for one task, whose certificate names it (CertificateNameOf)
//   DIR/revoked.pem                 the certificates that were taken back (revocation_list.h), once there are
//   any
//
// Keys and tokens may be read by their owner only (0600). Keys are EC P-256, certificates X.509v3 with
// SHA-256. Nothing that exists is overwritten.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distributed/task_name.h"

namespace weir {

struct KeyFilesOptions {
  std::string directory;           // made when missing
  std::vector<std::string> hosts;  // names or addresses, as in the cluster's addresses, without ports
  int num_days = 365;              // that certificates are valid
  std::map<TaskName, std::string> tasks = {};  // those with certificates of their own, and their hosts
};

inline constexpr int kMaxKeyDays = 3650;
inline constexpr size_t kMaxKeyHosts = 10'000;

// "ps:0=gpu1,worker:0=gpu1". InvalidArgument quotes what is no task with a host.
absl::StatusOr<std::map<TaskName, std::string>> ParseKeyTasks(absl::string_view text);

// Possible errors: InvalidArgument (options; a host that is none), AlreadyExists (the folder has such files),
// FailedPrecondition (a folder that is there is another user's, a symbolic link, or others may write to it),
// those of the file system, Internal (OpenSSL). After an error nothing of what it has made is left.
absl::Status MakeKeyFiles(const KeyFilesOptions& options);

// Adds the certificates in these folders of `directory` ("gpu1", "ps-0") to its revoked.pem, and returns that
// path. What is there already stays, also where several processes do this at once (a lock on the folder,
// which is waited for, up to half a minute). FailedPrecondition (another one has the lock for longer),
// InvalidArgument (a name that is no folder's, a certificate of another CA), and the errors of reading the
// certificates and the CA's key, of writing (the file before stays), Internal (OpenSSL).
absl::StatusOr<std::string> RevokeKeys(const std::string& directory, const std::vector<std::string>& folders);

}  // namespace weir
