#include "ros2s/pki/handshake.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "openssl.h"

namespace ros2s::pki {
namespace {

// gRPC's servers disconnect a client that does not offer it.
constexpr std::array<unsigned char, 3> http2{2, 'h', '2'};

// Moves bytes between OpenSSL and the socket: OpenSSL's own socket I/O raises SIGPIPE.
class Wire {
  public:
    Wire(int socket, SSL* tls, std::chrono::milliseconds within)
        : socket_(socket), within_(within), in_(BIO_new(BIO_s_mem())), out_(BIO_new(BIO_s_mem())) {
        SSL_set_bio(tls, in_, out_);  // which now owns them
    }
    Result<> flush() {
        char* bytes = nullptr;
        const long size = BIO_get_mem_data(out_, &bytes);
        for (long sent = 0; sent < size;) {
            ROS2S_TRY(wait(POLLOUT));
            const ssize_t went =
                ::send(socket_, bytes + sent, static_cast<size_t>(size - sent), MSG_NOSIGNAL);
            if (went < 0 && (errno == EINTR || errno == EAGAIN)) continue;
            if (went < 0) return fail(Code::disconnected);
            sent += went;
        }
        (void)BIO_reset(out_);
        return {};
    }
    Result<> fill() {
        std::array<char, 16384> part{};
        ROS2S_TRY(wait(POLLIN));
        const ssize_t came = ::recv(socket_, part.data(), part.size(), 0);
        if (came < 0 && (errno == EINTR || errno == EAGAIN)) return {};
        if (came <= 0) return fail(Code::disconnected);
        BIO_write(in_, part.data(), static_cast<int>(came));
        return {};
    }

  private:
    Result<> wait(short events) const {
        pollfd one{.fd = socket_, .events = events};
        const int ready = ::poll(&one, 1, static_cast<int>(within_.count()));
        if (ready < 0 && errno != EINTR) return fail_errno(errno);
        if (ready == 0) return fail(Code::deadline);
        return {};
    }
    int socket_;
    std::chrono::milliseconds within_;
    BIO* in_;
    BIO* out_;
};

Result<Settings> settings_for(const Identity& identity, Report& report) {
    Settings settings(SSL_CTX_new(TLS_client_method()));
    if (settings == nullptr || SSL_CTX_set_min_proto_version(settings.get(), TLS1_3_VERSION) != 1 ||
        SSL_CTX_load_verify_file(settings.get(), identity.authority_file.c_str()) != 1 ||
        SSL_CTX_use_certificate_chain_file(settings.get(), identity.certificate_file.c_str()) !=
            1 ||
        SSL_CTX_use_PrivateKey_file(settings.get(), identity.key_file.c_str(), SSL_FILETYPE_PEM) !=
            1 ||
        SSL_CTX_set_alpn_protos(settings.get(), http2.data(), http2.size()) != 0) {
        return report.fail(Code::invalid, "cannot set up TLS with OpenSSL: {}", openssl_error());
    }
    // The result is recorded, and the handshake continues.
    SSL_CTX_set_verify(settings.get(), SSL_VERIFY_NONE, nullptr);
    return settings;
}

// Repeats `step` (SSL_connect, a read) until it is done. `why` is OpenSSL's reason for a failure.
template <class Step>
Result<> drive(SSL* tls, Wire& wire, Step step, std::string& why) {
    for (;;) {
        ERR_clear_error();
        const int done = step();
        if (done > 0) return wire.flush();
        const int state = SSL_get_error(tls, done);
        if (state == SSL_ERROR_SSL) why = openssl_error();
        (void)wire.flush();  // including an alert with our reason
        if (state != SSL_ERROR_WANT_READ) return fail(Code::disconnected);
        ROS2S_TRY(wire.fill());
    }
}

std::unexpected<Error> explain(const Error& error, const std::string& why, bool met,
                               Report& report) {
    if (error.code == Code::deadline) {
        return report.fail(
            error, "it accepts the connection and sends nothing: it hangs, or is not a TLS server");
    }
    if (why.find("alert") != std::string::npos) {
        return report.fail(Code::denied, "it refuses us: {}", why);
    }
    // gRPC's servers give no reason.
    if (met) {
        return report.fail(Code::denied,
                           "it closes the connection after our certificate: its authority did not "
                           "sign the certificate, or it is not a gRPC server");
    }
    return report.fail(Code::disconnected, why.empty()
                                               ? "it closes the connection during the handshake"
                                               : fmt::format("it has no TLS 1.3 ({})", why));
}

}  // namespace

Result<ServerShown> shake_hands(int socket, const Identity& identity, const std::string& name,
                                Seconds now, std::chrono::milliseconds within, Report& report) {
    ROS2S_TRY(check_identity(identity, now, report));
    ROS2S_TRY_ASSIGN(const Settings settings, settings_for(identity, report));
    const Connection tls(SSL_new(settings.get()));
    if (tls == nullptr || !expect_name(tls.get(), name) ||
        (!is_ip_address(name) && SSL_set_tlsext_host_name(tls.get(), name.c_str()) != 1)) {
        return report.fail(Code::invalid, "'{}' cannot be a server's name", name);
    }
    X509_VERIFY_PARAM_set_time(SSL_get0_param(tls.get()), now.time_since_epoch().count());
    Wire wire(socket, tls.get(), within);
    std::string why;
    const auto met = drive(tls.get(), wire, [&] { return SSL_connect(tls.get()); }, why);
    if (!met) return explain(met.error(), why, false, report);
    // In TLS 1.3 a server checks our certificate after we have finished; gRPC's servers then send
    // first.
    char greeting = 0;
    const auto greeted =
        drive(tls.get(), wire, [&] { return SSL_peek(tls.get(), &greeting, 1); }, why);
    if (!greeted) return explain(greeted.error(), why, true, report);
    ServerShown shown{.certificate = {}, .name = name, .doubt = {}};
    shown.certificate = facts_of(SSL_get0_peer_certificate(tls.get()));
    if (const long judged = SSL_get_verify_result(tls.get()); judged != X509_V_OK) {
        shown.doubt = X509_verify_cert_error_string(judged);
    }
    return shown;
}

}  // namespace ros2s::pki
