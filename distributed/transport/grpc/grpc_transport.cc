#include "distributed/transport/grpc/grpc_transport.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <malloc.h>
#include <stdlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "distributed/transport/grpc/bulk_arguments.h"
#include "distributed/transport/grpc/completion_poller.h"
#include "distributed/transport/grpc/grpc_channel.h"
#include "distributed/transport/grpc/grpc_listener.h"
#include "distributed/transport/grpc/grpc_log.h"
#include "distributed/transport/grpc/pem_file.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

struct Credentials {
  std::shared_ptr<grpc::ChannelCredentials> client = grpc::InsecureChannelCredentials();
  std::shared_ptr<grpc::ServerCredentials> server = grpc::InsecureServerCredentials();
};

absl::StatusOr<Credentials> MakeCredentials(const SecurityOptions& security) {
  WEIR_RETURN_IF_ERROR(CheckSecurityOptions(security));
  Credentials credentials;
  if (!security.uses_tls()) return credentials;
  WEIR_ASSIGN_OR_RETURN(const std::string certificate, ReadPem(security.tls_cert_file));
  WEIR_ASSIGN_OR_RETURN(const std::string key, ReadPem(security.tls_key_file));
  WEIR_ASSIGN_OR_RETURN(const std::string ca, ReadPem(security.tls_ca_file));
  credentials.client = grpc::SslCredentials({ca, key, certificate});
  grpc::SslServerCredentialsOptions server(ca.empty()
                                               ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                               : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server.pem_root_certs = ca;
  server.pem_key_cert_pairs.push_back({key, certificate});
  credentials.server = grpc::SslServerCredentials(server);
  return credentials;
}

class GrpcTransport final : public Transport {
 public:
  GrpcTransport(const GrpcOptions& options, Credentials credentials)
      : options_(options),
        credentials_(std::move(credentials)),
        poller_(&queue_, {}, options.poll_before_sleep) {}

  // ResourceExhausted when nobody would ever hear of an answer.
  const absl::Status& status() const { return poller_.status(); }

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    WEIR_ASSIGN_OR_RETURN(const HostPort host_port, HostPort::Parse(address));
    if (host_port.port == 0) {
      return absl::InvalidArgumentError(absl::StrCat("cannot connect to ", peer.ToString(), ": its address ",
                                                     address,
                                                     " has port 0, which only the task itself can use"));
    }
    return std::make_unique<GrpcChannel>(
        peer, host_port.ToString(),
        // A host may be named as one of gRPC's schemes is: unix, ipv4.
        grpc::CreateCustomChannel("dns:///" + host_port.ToString(), credentials_.client, Arguments(peer)),
        &queue_, options_.security.token, options_.max_message_bytes);
  }

  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override {
    WEIR_RETURN_IF_ERROR(CheckExposure(address, options_.security));
    if (options_.security.uses_tls() && options_.security.tls_cert_file.empty()) {
      return absl::InvalidArgumentError(
          "TLS: a server needs a certificate and a key (--tls_cert, --tls_key)");
    }
    return GrpcListener::Start(address, std::move(handler), std::move(placement), options_,
                               credentials_.server);
  }

 private:
  grpc::ChannelArguments Arguments(const TaskName& peer) const {
    const int max_delay_ms = static_cast<int>(absl::ToInt64Milliseconds(options_.max_reconnect_delay));
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(LargestMessage(options_));
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, max_delay_ms);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, max_delay_ms);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, std::min(max_delay_ms, 50));
    // A pod that was started again has another address under the same name; gRPC would ask every 30 s.
    arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, max_delay_ms);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                     static_cast<int>(absl::ToInt64Milliseconds(options_.keepalive_interval)));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                     static_cast<int>(absl::ToInt64Milliseconds(options_.keepalive_timeout)));
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // what may be repeated, we know better
    // Two channels to a peer are two connections: one stays usable when the other is full.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    for (const auto& [name, value] : kBulkArguments) arguments.SetInt(name, value);
    if (options_.security.tls_task_names) {
      arguments.SetSslTargetNameOverride(CertificateNameOf(peer));
    } else if (!options_.security.tls_server_name.empty()) {
      arguments.SetSslTargetNameOverride(options_.security.tls_server_name);
    }
    return arguments;
  }

  const GrpcOptions options_;
  const Credentials credentials_;
  grpc::CompletionQueue queue_;
  CompletionPoller poller_;
};

}  // namespace

namespace {

// gRPC receives into blocks that it allocates and frees per read. By default malloc maps and unmaps each of
// that size, and a third of the time of a large transfer goes into first touches of fresh pages: keep what
// was freed.
void KeepFreedBlocks() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest value that malloc accepts
  ::mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

// As everybody else here looks names up (host_name.h). gRPC's own resolver asks a name server for an IPv6
// address also when /etc/hosts has the name, and waits for it: without a word for more than 20 s when there
// is no answer. It reads this when it is initialised. Whoever has set it has a reason.
void UseSystemsResolver() { setenv("GRPC_DNS_RESOLVER", "native", /*replace=*/0); }

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeGrpcTransport(const GrpcOptions& options) {
  // Held until the process ends: when its last user goes, gRPC joins its own threads, one of which may sleep
  // for 10 s.
  [[maybe_unused]] static const bool holds_library =
      (KeepFreedBlocks(), UseSystemsResolver(), LimitGrpcLog(), grpc_init(), true);
  WEIR_ASSIGN_OR_RETURN(Credentials credentials, MakeCredentials(options.security));
  auto transport = std::make_unique<GrpcTransport>(options, std::move(credentials));
  WEIR_RETURN_IF_ERROR(transport->status());
  return transport;
}

}  // namespace weir
