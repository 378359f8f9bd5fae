#include "openssl.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/trusted_file.h"

namespace ros2s::pki {
namespace {

// Larger than any certificate or key.
constexpr size_t file_bytes_max = size_t{1} << 20;

Result<> write_all(int fd, const std::string& text) {
    size_t done = 0;
    while (done < text.size()) {
        const ssize_t wrote = write(fd, text.data() + done, text.size() - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fail_errno(errno);
        done += static_cast<size_t>(wrote);
    }
    if (fsync(fd) != 0) return fail_errno(errno);
    return {};
}

}  // namespace

std::string openssl_error() {
    const unsigned long code = ERR_peek_last_error();
    ERR_clear_error();
    const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
    return reason == nullptr ? "OpenSSL gives no reason" : reason;
}

std::string name_text(const X509_NAME* name) {
    const Memory memory(BIO_new(BIO_s_mem()));
    if (memory == nullptr || X509_NAME_print_ex(memory.get(), name, 0, XN_FLAG_RFC2253) < 0) {
        return {};
    }
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(memory.get(), &bytes);
    return {bytes, static_cast<size_t>(size)};
}

bool is_ip_address(const std::string& name) {
    in6_addr address{};
    return inet_pton(AF_INET, name.c_str(), &address) == 1 ||
           inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

bool expect_name(SSL* tls, const std::string& name) {
    if (is_ip_address(name)) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), name.c_str()) == 1;
    }
    return !name.empty() && SSL_set1_host(tls, name.c_str()) == 1;
}

Result<std::string> read_file(const std::string& path, Report& report) {
    Report why;
    auto text = read_trusted(path, file_bytes_max, why);
    if (text) return text;
    if (text.error().code == Code::too_large) {
        return report.fail(Code::invalid, "{} is too large for a certificate or key file", path);
    }
    return report.fail(text.error(), why.text());
}

Result<> create_file(const std::string& path, const std::string& text, int mode, Report& report) {
    const Descriptor file(
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, static_cast<mode_t>(mode)));
    // The umask may have removed rights that others need to read a certificate.
    const bool made = file.get() >= 0 && fchmod(file.get(), static_cast<mode_t>(mode)) == 0;
    const Result<> written = made ? write_all(file.get(), text) : Result<>(fail_errno(errno));
    if (written) return {};
    const std::string why = std::strerror(to_errno(written.error()));
    if (file.get() >= 0) unlink(path.c_str());
    return report.fail(written.error(), "cannot write the file {}: {}", path, why);
}

// `lacks`: "has no certificate in PEM form". OpenSSL opens files when it first decodes something,
// and does not report a failure to open them.
std::unexpected<Error> not_decoded(const std::string& path, std::string_view lacks,
                                   Report& report) {
    const std::string why = openssl_error();
    std::array<Descriptor, 4> probes;  // others may have closed some meanwhile
    for (Descriptor& each : probes) {
        each = Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
        const int cause = errno;
        if (each.get() >= 0 || (cause != EMFILE && cause != ENFILE)) continue;
        return report.fail(fail_errno(cause).error(), "cannot use {}: {}", path,
                           std::strerror(cause));
    }
    return report.fail(Code::invalid, "{} {} ({})", path, lacks, why);
}

Result<Certificate> parse_certificate(const std::string& text, const std::string& path,
                                      Report& report) {
    const Memory memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    Certificate certificate(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) {
        return not_decoded(path, "has no certificate in PEM form", report);
    }
    return certificate;
}

Result<Key> parse_key(const std::string& text, const std::string& path, Report& report) {
    const Memory memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    // An empty pass phrase, so that OpenSSL does not ask on the terminal.
    Key key(PEM_read_bio_PrivateKey(
        memory.get(), nullptr, [](char*, int, int, void*) { return 0; }, nullptr));
    if (key == nullptr) {
        return not_decoded(path, "has no private key in PEM form without a pass phrase", report);
    }
    return key;
}

std::string serial_text(const X509* certificate) {
    BIGNUM* const number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
    char* const digits = number == nullptr ? nullptr : BN_bn2hex(number);
    std::string text = digits == nullptr ? "" : digits;
    OPENSSL_free(digits);
    BN_free(number);
    return text;
}

Seconds to_seconds(const ASN1_TIME* time) {
    std::tm parts{};
    if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
    return Seconds(std::chrono::seconds(timegm(&parts)));
}

}  // namespace ros2s::pki
