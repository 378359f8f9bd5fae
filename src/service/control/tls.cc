#include "tls.h"

#include <fmt/format.h>
#include <grpc/grpc_security.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <chrono>
#include <utility>

#include "grpc_address.h"
#include "ros2s/control/grpc_needs.h"
#include "ros2s/pki/openssl_objects.h"
#include "ros2s/pki/watched_identity.h"
#include "ros2s/runtime/process_limits.h"

// gRPC 1.51 exports the setter of a client's lowest TLS version, but does not declare it in its
// public headers. This declares the class as far as it is used: a call of a non-virtual member of
// the object that the public function returns. tls_test checks that TLS 1.2 is refused.
class grpc_ssl_credentials {
  public:
    void set_min_tls_version(grpc_tls_version version);
};
namespace grpc {
std::shared_ptr<Channel> CreateChannelInternal(
    const std::string& host, grpc_channel* channel,
    std::vector<std::unique_ptr<experimental::ClientInterceptorFactoryInterface>> interceptors);
}  // namespace grpc

namespace ros2s::control {
namespace {

pki::Seconds now() {
    return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

// Two things that a server's handshakes need and gRPC has no setting for: the lowest TLS version,
// and the reason why a certificate was refused. gRPC makes a new SSL_CTX for each new set of files
// and gives no access to it. OpenSSL calls registered callbacks when one is made. gRPC makes it on
// the thread on which it has just got the files, so that only contexts of ours are changed.
thread_local bool next_context_is_ours = false;
// Kept until gRPC reports, on the same thread, that the handshake failed.
thread_local std::string refused_certificate;

// Like OpenSSL's own, and stores the subject and the problem of the certificate.
int verify(X509_STORE_CTX* chain, void*) {
    if (X509_verify_cert(chain) == 1) return 1;
    constexpr size_t subject_bytes_max = 256;
    const X509* const certificate = X509_STORE_CTX_get0_cert(chain);
    refused_certificate = fmt::format(
        "of {:.{}}: {}", pki::name_text(X509_get_subject_name(certificate)), subject_bytes_max,
        X509_verify_cert_error_string(X509_STORE_CTX_get_error(chain)));
    return 0;
}

void context_made(void* context, void*, CRYPTO_EX_DATA*, int, long, void*) {
    if (!std::exchange(next_context_is_ours, false)) return;
    SSL_CTX_set_options(static_cast<SSL_CTX*>(context),
                        SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1 | SSL_OP_NO_TLSv1_2);
    SSL_CTX_set_cert_verify_callback(static_cast<SSL_CTX*>(context), verify, nullptr);
}

void watch_contexts() {
    [[maybe_unused]] static const int index =
        SSL_CTX_get_ex_new_index(0, nullptr, context_made, nullptr, nullptr);
}

// The files of one listening address, checked before each handshake. For one address, gRPC calls it
// on one thread at a time.
class WatchedFiles {
  public:
    WatchedFiles(pki::Identity identity, Log log)
        : identity_(std::move(identity), log), log_(std::move(log)) {}

    static grpc_ssl_certificate_config_reload_status fetch(
        void* self, grpc_ssl_server_certificate_config** config) noexcept {
        return static_cast<WatchedFiles*>(self)->fetch(config);
    }

  private:
    grpc_ssl_certificate_config_reload_status fetch(grpc_ssl_server_certificate_config** config) {
        pki::Pem pem;
        switch (identity_.look(pem)) {
            case pki::WatchedIdentity::Look::unchanged:
                return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
            case pki::WatchedIdentity::Look::not_usable:
                return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
            case pki::WatchedIdentity::Look::changed: break;
        }
        const grpc_ssl_pem_key_cert_pair pair{.private_key = pem.key.c_str(),
                                              .cert_chain = pem.certificate.c_str()};
        *config = grpc_ssl_server_certificate_config_create(pem.authority.c_str(), &pair, 1);
        if (loaded_) {
            log_.info("tls: {} was read again", identity_.identity().certificate_file);
        }
        loaded_ = true;
        next_context_is_ours = true;
        return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
    }
    pki::WatchedIdentity identity_;
    Log log_;
    bool loaded_ = false;
};

class ServerCredentials final : public grpc::ServerCredentials {
  public:
    ServerCredentials(const pki::Identity& identity, Log log) : files_(identity, std::move(log)) {
        watch_contexts();
        grpc_ssl_server_credentials_options* const options =
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, &WatchedFiles::fetch,
                &files_);
        credentials_ = grpc_ssl_server_credentials_create_with_options(options);
    }
    ServerCredentials& operator=(ServerCredentials&&) = delete;
    ~ServerCredentials() override { grpc_server_credentials_release(credentials_); }

    void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

  private:
    int AddPortToServer(const std::string& address, grpc_server* server) override {
        return grpc_server_add_http2_port(server, address.c_str(), credentials_);
    }
    WatchedFiles files_;
    grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> server_credentials(const pki::Identity& identity,
                                                            Log log) {
    return std::make_shared<ServerCredentials>(identity, std::move(log));
}

Result<std::shared_ptr<grpc::Channel>> open_channel(const std::string& address,
                                                    const pki::Identity& identity,
                                                    grpc::ChannelArguments arguments,
                                                    Report& report) {
    ROS2S_TRY(pki::check_identity(identity, now(), report));
    ROS2S_TRY(check_grpc_needs(report));
    const pki::Pem pem = pki::read_pem(identity);
    grpc_ssl_pem_key_cert_pair pair{.private_key = pem.key.c_str(),
                                    .cert_chain = pem.certificate.c_str()};
    // gRPC's C++ library is initialised by the first of its own objects, and this may be the
    // process's first use of gRPC. The channel below then takes over.
    struct Initialised {
        Initialised() { grpc_init(); }
        Initialised& operator=(Initialised&&) = delete;
        ~Initialised() { grpc_shutdown(); }
    } const initialised;
    grpc_channel_credentials* const credentials =
        grpc_ssl_credentials_create_ex(pem.authority.c_str(), &pair, nullptr, nullptr);
    reinterpret_cast<grpc_ssl_credentials*>(credentials)->set_min_tls_version(TLS1_3);
    const grpc_channel_args plain = arguments.c_channel_args();
    grpc_channel* const channel =
        grpc_channel_create(grpc_address(address).c_str(), credentials, &plain);
    grpc_channel_credentials_release(credentials);
    return grpc::CreateChannelInternal("", channel, {});
}

Result<> check_grpc_needs(Report& report) {
    if (grpc_is_initialized() != 0) return {};
    constexpr size_t descriptors = 8;
    ROS2S_TRY(check_descriptors(descriptors, "gRPC", report));
    ROS2S_TRY(check_grpc_space(0, report));
    return check_threads(grpc_threads(), "gRPC", report);
}

std::string take_refused_certificate() { return std::exchange(refused_certificate, {}); }

std::string chain_of(const grpc::AuthContext& peer) {
    std::string chain;
    for (const char* property :
         {GRPC_X509_PEM_CERT_PROPERTY_NAME, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME}) {
        for (const grpc::string_ref& part : peer.FindPropertyValues(property)) {
            chain.append(part.data(), part.size());
        }
    }
    return chain;
}

std::string subject_of(const grpc::AuthContext& peer) {
    const auto subject = peer.FindPropertyValues(GRPC_X509_SUBJECT_PROPERTY_NAME);
    if (subject.empty()) return {};
    return {subject.front().data(), subject.front().size()};
}

}  // namespace ros2s::control
