#include "ros2s/pki/certificate.h"

#include <arpa/inet.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <ctime>

#include "openssl.h"
#include "ros2s/pki/revocation.h"

namespace ros2s::pki {
namespace {

using Store = std::unique_ptr<X509_STORE, FreeBy<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, FreeBy<X509_STORE_CTX_free>>;

std::vector<std::string> alternative_names(const X509* certificate) {
    const Names names(static_cast<GENERAL_NAMES*>(
        X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
    std::vector<std::string> texts;
    for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
        int kind = 0;
        const auto* value = static_cast<const ASN1_STRING*>(
            GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &kind));
        if (kind == GEN_DNS) {
            texts.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                               static_cast<size_t>(ASN1_STRING_length(value)));
        } else if (kind == GEN_IPADD) {
            char text[INET6_ADDRSTRLEN] = "";
            inet_ntop(ASN1_STRING_length(value) == 4 ? AF_INET : AF_INET6,
                      ASN1_STRING_get0_data(value), text, sizeof text);
            texts.emplace_back(text);
        }
    }
    return texts;
}

struct FreeCertificates {
    void operator()(STACK_OF(X509) * list) const noexcept { sk_X509_pop_free(list, X509_free); }
};
using Certificates = std::unique_ptr<STACK_OF(X509), FreeCertificates>;

// Returns the certificates that can be parsed.
Result<Certificates> certificates_of(const std::string& text) {
    Certificates list(sk_X509_new_null());
    const Memory memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    if (list == nullptr || memory == nullptr) return fail(Code::no_memory);
    for (;;) {
        Certificate each(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
        if (each == nullptr || sk_X509_push(list.get(), each.get()) == 0) break;
        (void)each.release();
    }
    (void)openssl_error();  // the end of the text
    return list;
}

// All certificates of the file are trusted.
Result<Store> store_of(const std::string& text, const std::string& path, Report& report) {
    Store store(X509_STORE_new());
    const Memory memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    ROS2S_TRY(parse_certificate(text, path, report));
    for (;;) {
        const Certificate each(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
        if (each == nullptr) break;
        X509_STORE_add_cert(store.get(), each.get());
    }
    (void)openssl_error();  // the end of the file
    return store;
}

Result<> check_chain(const Identity& identity, X509* own, const std::string& authorities,
                     Seconds now, Report& report) {
    ROS2S_TRY_ASSIGN(const Store store, store_of(authorities, identity.authority_file, report));
    const StoreContext context(X509_STORE_CTX_new());
    if (context == nullptr || X509_STORE_CTX_init(context.get(), store.get(), own, nullptr) != 1) {
        return report.fail(Code::io, "cannot check the certificates with OpenSSL: {}",
                           openssl_error());
    }
    X509_STORE_CTX_set_time(context.get(), 0, now.time_since_epoch().count());
    if (X509_verify_cert(context.get()) == 1) return {};
    const int reason = X509_STORE_CTX_get_error(context.get());
    return report.fail(Code::invalid,
                       "{} was not signed by the authority in {} ({}); use the ca.crt of the "
                       "directory where it was issued",
                       identity.certificate_file, identity.authority_file,
                       X509_verify_cert_error_string(reason));
}

}  // namespace

std::string to_string(Seconds time) {
    return fmt::format("{:%Y-%m-%d %H:%M} UTC",
                       fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

CertificateFacts facts_of(const X509* certificate) {
    return {.subject = name_text(X509_get_subject_name(certificate)),
            .issuer = name_text(X509_get_issuer_name(certificate)),
            .serial = serial_text(certificate),
            .alternative_names = alternative_names(certificate),
            .begins = to_seconds(X509_get0_notBefore(certificate)),
            .expires = to_seconds(X509_get0_notAfter(certificate)),
            .authority = X509_check_ca(const_cast<X509*>(certificate)) > 0};
}

Result<CertificateFacts> read_certificate(const std::string& file, Report& report) {
    ROS2S_TRY_ASSIGN(const std::string text, read_file(file, report));
    ROS2S_TRY_ASSIGN(const Certificate certificate, parse_certificate(text, file, report));
    return facts_of(certificate.get());
}

namespace {

// Why X509_verify_cert() refused a client's certificate, and what to do.
std::unexpected<Error> refused_chain(X509_STORE_CTX* context, Report& report) {
    const int reason = X509_STORE_CTX_get_error(context);
    const char* const openssls = X509_verify_cert_error_string(reason);
    const X509* const certificate = X509_STORE_CTX_get_current_cert(context);
    switch (reason) {
        case X509_V_ERR_CERT_REVOKED:
            return report.fail(
                Code::denied,
                "the certificate of {} was revoked by its authority (serial {}); get a new one",
                name_text(X509_get_subject_name(certificate)), serial_text(certificate));
        case X509_V_ERR_CRL_SIGNATURE_FAILURE:
            return report.fail(Code::invalid,
                               "the server's list of certificates that {} revoked has a wrong "
                               "signature; copy the .crl file to the server again",
                               name_text(X509_get_issuer_name(certificate)));
        case X509_V_ERR_CERT_HAS_EXPIRED:
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return report.fail(Code::deadline, "{}; get a new one", openssls);
        default: return report.fail(Code::invalid, "{}; get a new one", openssls);
    }
}

// A file of `identity`. If it is missing, the report says how to get such files.
Result<std::string> read_part(const std::string& path, const Identity& identity, Report& report) {
    Report missing;
    auto text = read_file(path, missing);
    if (text) return text;
    if (text.error().code != Code::not_found) return report.fail(text.error(), missing.text());
    const auto name = [](const std::string& file) { return file.substr(file.rfind('/') + 1); };
    return report.fail(text.error(),
                       "{}; {}, {} and {} come from where the authority is: ros2store certs init "
                       "DIR makes one with certificates; copy them here",
                       missing.text(), name(identity.authority_file),
                       name(identity.certificate_file), name(identity.key_file));
}

}  // namespace

Result<> check_identity(const Identity& identity, Seconds now, Report& report) {
    ROS2S_TRY_ASSIGN(const std::string authorities,
                     read_part(identity.authority_file, identity, report));
    ROS2S_TRY_ASSIGN(const std::string text,
                     read_part(identity.certificate_file, identity, report));
    ROS2S_TRY_ASSIGN(const std::string key_text, read_part(identity.key_file, identity, report));
    ROS2S_TRY_ASSIGN(const Certificate own,
                     parse_certificate(text, identity.certificate_file, report));
    ROS2S_TRY_ASSIGN(const Key key, parse_key(key_text, identity.key_file, report));
    if (X509_check_private_key(own.get(), key.get()) != 1) {
        (void)openssl_error();
        return report.fail(Code::invalid, "{} is not the key of {}; use the two files of one name",
                           identity.key_file, identity.certificate_file);
    }
    const Seconds begins = to_seconds(X509_get0_notBefore(own.get()));
    const Seconds expires = to_seconds(X509_get0_notAfter(own.get()));
    if (now < begins || now > expires) {
        return report.fail(
            Code::deadline,
            now < begins ? fmt::format("{} is valid from {}, but it is {} by the clock here: set "
                                       "the clock, or issue the certificate again",
                                       identity.certificate_file, to_string(begins), to_string(now))
                         : fmt::format("{} expired at {}; issue a new one where the authority is: "
                                       "ros2store certs issue DIR NAME --replace, and copy it here",
                                       identity.certificate_file, to_string(expires)));
    }
    ROS2S_TRY(check_chain(identity, own.get(), authorities, now, report));
    ROS2S_TRY(read_revocations(identity.authority_file, report));
    return {};
}

Result<Seconds> verify_client(const std::string& chain, const std::string& authorities,
                              const std::string& revocations, Seconds now, Report& report) {
    ROS2S_TRY_ASSIGN(const Store store, store_of(authorities, "the authority", report));
    if (!use_revocations(store.get(), revocations)) {
        return report.fail(Code::invalid,
                           "the server's lists of revoked certificates cannot be used; copy the "
                           ".crl file to the server again");
    }
    ROS2S_TRY_ASSIGN(const Certificates shown, certificates_of(chain));
    const StoreContext context(X509_STORE_CTX_new());
    const bool ready = context != nullptr && sk_X509_num(shown.get()) > 0 &&
                       X509_STORE_CTX_init(context.get(), store.get(),
                                           sk_X509_value(shown.get(), 0), shown.get()) == 1 &&
                       X509_STORE_CTX_set_default(context.get(), "ssl_client") == 1;
    if (!ready) return report.fail(Code::invalid, "it is not a certificate");
    X509_STORE_CTX_set_time(context.get(), 0, now.time_since_epoch().count());
    if (X509_verify_cert(context.get()) != 1) return refused_chain(context.get(), report);
    const STACK_OF(X509)* const believed = X509_STORE_CTX_get0_chain(context.get());
    Seconds until = Seconds::max();
    for (int i = 0; i < sk_X509_num(believed); ++i) {
        until = std::min(until, to_seconds(X509_get0_notAfter(sk_X509_value(believed, i))));
    }
    return until;
}

Identity identity_in(const std::string& directory, const std::string& name) {
    return {.authority_file = directory + "/ca.crt",
            .certificate_file = directory + "/" + name + ".crt",
            .key_file = directory + "/" + name + ".key"};
}

}  // namespace ros2s::pki
