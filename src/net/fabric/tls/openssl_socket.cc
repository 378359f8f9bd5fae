// SecureSocket over OpenSSL. OpenSSL reads and writes the socket through a BIO of ours, because its
// own raises SIGPIPE, and takes each record in two system calls.
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <vector>

#include "ros2s/base/check.h"
#include "ros2s/pki/openssl_objects.h"
#include "ros2s/pki/revocation.h"
#include "ros2s/pki/watched_identity.h"
#include "secure_socket.h"

namespace ros2s::fabric::tls {
namespace {

using pki::Certificate;
using pki::Connection;
using pki::Memory;
using pki::openssl_error;
using pki::Settings;
using Method = std::unique_ptr<BIO_METHOD, pki::FreeBy<BIO_meth_free>>;

// Length and name, as in the extension.
constexpr std::string_view protocol = "\x0cros2s-fabric";
static_assert(protocol.size() == 1 + 12);

// A chain of certificates is smaller. OpenSSL's own limit is 100 KiB.
constexpr long certificates_bytes_max = long{16} << 10;
constexpr int chain_length_max = 4;
// The most bytes that one recv() takes.
constexpr size_t ahead_bytes = size_t{64} << 10;
// Records without data in a row, such as new keys. Peers of ours send one in eight million.
constexpr int empty_records_max = 16;
// Records under one key. AES-GCM allows 2^24.5 of full size (RFC 8446, 5.5).
constexpr uint64_t records_per_key = uint64_t{1} << 23;

std::string subject_of(const X509* certificate) {
    return pki::name_text(X509_get_subject_name(certificate));
}

class OpensslSocket final : public SecureSocket {
  public:
    OpensslSocket(int fd, Connection tls) : fd_(fd), tls_(std::move(tls)) {}
    void attach(BIO* bio) noexcept {
        BIO_set_data(bio, this);
        BIO_set_init(bio, 1);
        SSL_set_bio(tls_.get(), bio, bio);  // which now owns it
        SSL_set_app_data(tls_.get(), this);
    }

    Progress shake_hands() noexcept override;
    Moved read(Bytes into) noexcept override;
    Moved write(ConstBytes from, bool more) noexcept override;
    const std::string& peer_subject() const noexcept override { return peer_subject_; }
    const std::string& why() const noexcept override { return why_; }
    void read_ahead() override { ahead_.resize(ahead_bytes); }
    void became_readable(bool hung_up) noexcept override {
        drained_ = false;
        hung_up_ |= hung_up;
    }

    void change_key_every(uint64_t records) noexcept override { records_per_key_ = records; }

    // Keeps what OpenSSL drops when it refuses a certificate.
    static int verified(int good, X509_STORE_CTX* chain) noexcept;
    static int bio_read(BIO* bio, char* into, int size) noexcept;
    static int bio_write(BIO* bio, const char* from, int size) noexcept;

  private:
    ssize_t take(void* into, size_t size) noexcept;
    Progress judge(int result) noexcept;
    Progress refuse(std::string why) noexcept;

    const int fd_;
    Connection tls_;
    std::string peer_subject_, refused_subject_;
    std::string why_;
    std::vector<std::byte> ahead_;  // of the socket's bytes, if it reads ahead
    size_t ahead_first_ = 0, ahead_end_ = 0;
    bool drained_ = false;  // the socket had no more bytes
    bool hung_up_ = false;  // so that its end must be read
    bool ended_ = false;
    bool starved_ = false;  // the last call found nothing to read
    bool more_ = false;
    uint64_t records_ = 0;  // written under the current key
    uint64_t records_per_key_ = records_per_key;
};

// Returns what recv() returns, but does not call it again after it returned less than the buffer
// holds.
ssize_t OpensslSocket::take(void* into, size_t size) noexcept {
    if (drained_) {
        errno = EAGAIN;
        return -1;
    }
    ssize_t got = 0;
    do {
        got = ::recv(fd_, into, size, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    // Without reading ahead the caller polls the socket itself, so each call reads it.
    if (!ahead_.empty() && !hung_up_) drained_ = got < static_cast<ssize_t>(size);
    if (got == 0 || (got < 0 && errno != EAGAIN)) ended_ = true;
    return got;
}

int OpensslSocket::bio_read(BIO* bio, char* into, int size) noexcept {
    auto& self = *static_cast<OpensslSocket*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (size <= 0) return 0;
    ssize_t got = 0;
    if (self.ahead_.empty()) {
        got = self.take(into, static_cast<size_t>(size));
    } else {
        if (self.ahead_first_ == self.ahead_end_) {
            got = self.take(self.ahead_.data(), self.ahead_.size());
            self.ahead_first_ = 0;
            self.ahead_end_ = static_cast<size_t>(std::max<ssize_t>(got, 0));
        }
        const size_t count =
            std::min(self.ahead_end_ - self.ahead_first_, static_cast<size_t>(size));
        if (count > 0) {
            std::memcpy(into, self.ahead_.data() + self.ahead_first_, count);
            self.ahead_first_ += count;
            got = static_cast<ssize_t>(count);
        }
    }
    if (got < 0 && errno == EAGAIN) {
        BIO_set_retry_read(bio);
        self.starved_ = true;
    }
    return static_cast<int>(got);
}

int OpensslSocket::bio_write(BIO* bio, const char* from, int size) noexcept {
    auto& self = *static_cast<OpensslSocket*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (size <= 0) return 0;
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (self.more_ ? MSG_MORE : 0);
    ssize_t sent = 0;
    do {
        sent = ::send(self.fd_, from, static_cast<size_t>(size), flags);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno == EAGAIN) {
        BIO_set_retry_write(bio);
    } else if (sent < 0) {
        self.ended_ = true;
    }
    return static_cast<int>(sent);
}

int OpensslSocket::verified(int good, X509_STORE_CTX* chain) noexcept {
    if (pki::judge_revocations(good, chain) == 1) return 1;
    const auto* const tls = static_cast<const SSL*>(
        X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto& self = *static_cast<OpensslSocket*>(SSL_get_app_data(tls));
    self.refused_subject_ = subject_of(X509_STORE_CTX_get0_cert(chain));
    return 0;
}

Progress OpensslSocket::refuse(std::string why) noexcept {
    why_ = std::move(why);
    return Progress::refused;
}

// Returns the meaning of a result that is not a success.
Progress OpensslSocket::judge(int result) noexcept {
    switch (SSL_get_error(tls_.get(), result)) {
        case SSL_ERROR_WANT_READ: return Progress::wants_input;
        case SSL_ERROR_WANT_WRITE: return Progress::wants_output;
        case SSL_ERROR_ZERO_RETURN: return Progress::ended;
        default: break;
    }
    if (ended_) {
        ERR_clear_error();
        return Progress::ended;
    }
    const long judged = SSL_get_verify_result(tls_.get());
    if (judged == X509_V_OK) return refuse(openssl_error());
    ERR_clear_error();
    return refuse(fmt::format("the certificate of {}: {}", refused_subject_,
                              X509_verify_cert_error_string(judged)));
}

Progress OpensslSocket::shake_hands() noexcept {
    ERR_clear_error();
    const int result = SSL_do_handshake(tls_.get());
    if (result != 1) return judge(result);
    const unsigned char* agreed = nullptr;
    unsigned length = 0;
    SSL_get0_alpn_selected(tls_.get(), &agreed, &length);
    if (length == 0) return refuse("the peer uses TLS, but is not a program of ros2store");
    peer_subject_ = subject_of(SSL_get0_peer_certificate(tls_.get()));
    if (peer_subject_.empty()) return refuse("the certificate names no subject");
    return Progress::done;
}

Moved OpensslSocket::read(Bytes into) noexcept {
    ERR_clear_error();
    for (int i = 0; i < empty_records_max; ++i) {
        starved_ = false;
        size_t count = 0;
        const int result = SSL_read_ex(tls_.get(), into.data(), into.size(), &count);
        if (result == 1) return {.bytes = count};
        // OpenSSL also wants input after a record that had no data.
        const Progress progress = judge(result);
        if (progress != Progress::wants_input || starved_) return {.progress = progress};
    }
    return {.progress = refuse("too many records without data")};
}

Moved OpensslSocket::write(ConstBytes from, bool more) noexcept {
    ERR_clear_error();
    const ConstBytes record = from.first(std::min(from.size(), write_bytes_max));
    more_ = more || record.size() < from.size();
    size_t count = 0;
    const int result = SSL_write_ex(tls_.get(), record.data(), record.size(), &count);
    if (result != 1) return {.progress = judge(result)};
    if (++records_ >= records_per_key_) {
        records_ = 0;
        // The message for the peer goes out with the next record.
        if (SSL_key_update(tls_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
            return {.progress = refuse("no new key: " + openssl_error())};
        }
    }
    return {.bytes = count};
}

// One method for all sockets of a domain.
Method make_method() {
    Method method(BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "ros2store socket"));
    ROS2S_CHECK(method != nullptr);
    BIO_meth_set_read(method.get(), OpensslSocket::bio_read);
    BIO_meth_set_write(method.get(), OpensslSocket::bio_write);
    BIO_meth_set_ctrl(method.get(), [](BIO*, int command, long, void*) -> long {
        return command == BIO_CTRL_FLUSH ? 1 : 0;
    });
    return method;
}

int choose_protocol(SSL* /*tls*/, const unsigned char** chosen, unsigned char* length,
                    const unsigned char* offered, unsigned offered_length, void* /*unused*/) {
    unsigned char* found = nullptr;
    const auto* const ours = reinterpret_cast<const unsigned char*>(protocol.data());
    if (SSL_select_next_proto(&found, length, ours, protocol.size(), offered, offered_length) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

Memory reader_of(const std::string& text) {
    return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

bool use_files(SSL_CTX* settings, const pki::Pem& pem) {
    const Memory authorities = reader_of(pem.authority);
    X509_STORE* const trusted = SSL_CTX_get_cert_store(settings);
    size_t count = 0;
    while (
        const Certificate each{PEM_read_bio_X509(authorities.get(), nullptr, nullptr, nullptr)}) {
        if (X509_STORE_add_cert(trusted, each.get()) != 1) return false;
        ++count;
    }
    if (!pki::use_revocations(trusted, pem.revocations)) return false;
    const Memory chain = reader_of(pem.certificate);
    const Certificate own{PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr)};
    if (count == 0 || own == nullptr || SSL_CTX_use_certificate(settings, own.get()) != 1) {
        return false;
    }
    while (const Certificate each{PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr)}) {
        if (SSL_CTX_add1_chain_cert(settings, each.get()) != 1) return false;
    }
    const Memory key_text = reader_of(pem.key);
    const pki::Key key{PEM_read_bio_PrivateKey(
        key_text.get(), nullptr, [](char*, int, int, void*) { return 0; }, nullptr)};
    ERR_clear_error();  // of the ends of the files
    return key != nullptr && SSL_CTX_use_PrivateKey(settings, key.get()) == 1 &&
           SSL_CTX_check_private_key(settings) == 1;
}

Result<Settings> make_settings(const pki::Pem& pem, Report& report) {
    Settings settings(SSL_CTX_new(TLS_method()));
    if (settings == nullptr || SSL_CTX_set_min_proto_version(settings.get(), TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(settings.get(), TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(settings.get(), "TLS_AES_256_GCM_SHA384") != 1 ||
        SSL_CTX_set_alpn_protos(settings.get(),
                                reinterpret_cast<const unsigned char*>(protocol.data()),
                                protocol.size()) != 0 ||
        !use_files(settings.get(), pem)) {
        return report.fail(Code::invalid, "cannot set up TLS with OpenSSL: {}", openssl_error());
    }
    SSL_CTX_set_alpn_select_cb(settings.get(), choose_protocol, nullptr);
    SSL_CTX_set_verify(settings.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       OpensslSocket::verified);
    SSL_CTX_set_verify_depth(settings.get(), chain_length_max);
    SSL_CTX_set_max_cert_list(settings.get(), certificates_bytes_max);
    // Each connection has a handshake of its own, so nothing is kept for later ones.
    SSL_CTX_set_session_cache_mode(settings.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(settings.get(), 0);
    SSL_CTX_set_mode(settings.get(),
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_clear_mode(settings.get(), SSL_MODE_AUTO_RETRY);
    return settings;
}

class OpensslSockets final : public SecureSockets {
  public:
    OpensslSockets(pki::Identity identity, Log log)
        : files_(std::move(identity), std::move(log)), method_(make_method()) {}

    Result<> look(Report& report) {
        const auto now = std::chrono::steady_clock::now();
        if (settings_ != nullptr && now < next_look_) return {};
        next_look_ = now + std::chrono::seconds(1);
        pki::Pem pem;
        if (files_.look(pem) == pki::WatchedIdentity::Look::changed) {
            ROS2S_TRY_ASSIGN(settings_, make_settings(pem, report));
        }
        if (settings_ != nullptr) return {};
        return report.fail(Code::invalid, "the certificate files cannot be used");
    }

    Result<std::unique_ptr<SecureSocket>> accept(int fd, Report& report) override {
        ROS2S_TRY_ASSIGN(Connection tls, make_connection(report));
        SSL_set_accept_state(tls.get());
        return make_socket(fd, std::move(tls), report);
    }
    Result<std::unique_ptr<SecureSocket>> connect(int fd, const std::string& server_name,
                                                  Report& report) override {
        ROS2S_TRY_ASSIGN(Connection tls, make_connection(report));
        if (!pki::expect_name(tls.get(), server_name)) {
            return report.fail(Code::invalid, "'{}' cannot be a server's name", server_name);
        }
        SSL_set_connect_state(tls.get());
        return make_socket(fd, std::move(tls), report);
    }

  private:
    Result<Connection> make_connection(Report& report) {
        ROS2S_TRY(look(report));
        Connection tls(SSL_new(settings_.get()));
        if (tls == nullptr) return fail(Code::no_memory);
        return tls;
    }
    Result<std::unique_ptr<SecureSocket>> make_socket(int fd, Connection tls, Report& report) {
        BIO* const bio = BIO_new(method_.get());
        if (bio == nullptr) return report.fail(Code::no_memory, "no memory for a connection");
        auto socket = std::make_unique<OpensslSocket>(fd, std::move(tls));
        socket->attach(bio);
        return socket;
    }

    pki::WatchedIdentity files_;
    Method method_;
    Settings settings_;
    std::chrono::steady_clock::time_point next_look_;
};

}  // namespace

Result<std::unique_ptr<SecureSockets>> open_secure_sockets(pki::Identity identity, Log log,
                                                           Report& report) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    ROS2S_TRY(pki::check_identity(identity, now, report));
    auto sockets = std::make_unique<OpensslSockets>(std::move(identity), std::move(log));
    ROS2S_TRY(sockets->look(report));
    return sockets;
}

}  // namespace ros2s::fabric::tls
