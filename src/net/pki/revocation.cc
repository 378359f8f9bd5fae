#include "ros2s/pki/revocation.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "openssl.h"

namespace ros2s::pki {
namespace {

// Nothing publishes a development authority's list again before it is out of date.
constexpr std::chrono::days list_lifetime{3650};

using Entry = std::unique_ptr<X509_REVOKED, FreeBy<X509_REVOKED_free>>;
using Moment = std::unique_ptr<ASN1_TIME, FreeBy<ASN1_TIME_free>>;
using KeyIdentifier = std::unique_ptr<AUTHORITY_KEYID, FreeBy<AUTHORITY_KEYID_free>>;
using Number = std::unique_ptr<ASN1_INTEGER, FreeBy<ASN1_INTEGER_free>>;

bool add_entry(X509_CRL* list, const X509* certificate, const ASN1_TIME* when) {
    Entry entry(X509_REVOKED_new());
    const bool added =
        entry != nullptr &&
        X509_REVOKED_set_serialNumber(
            entry.get(), const_cast<ASN1_INTEGER*>(X509_get0_serialNumber(certificate))) == 1 &&
        X509_REVOKED_set_revocationDate(entry.get(), const_cast<ASN1_TIME*>(when)) == 1 &&
        X509_CRL_add0_revoked(list, entry.get()) == 1;
    if (added) (void)entry.release();
    return added;
}

// Verifiers find the list of the right authority by its key, as authorities may have one name.
bool add_key_identifier(X509_CRL* list, X509* issuer) {
    X509V3_CTX context{};
    X509V3_set_ctx(&context, issuer, nullptr, nullptr, list, 0);
    const Extension extension(
        X509V3_EXT_conf_nid(nullptr, &context, NID_authority_key_identifier, "keyid:always"));
    return extension != nullptr && X509_CRL_add_ext(list, extension.get(), -1) == 1;
}

bool increase_number(X509_CRL* list) {
    Number number(
        static_cast<ASN1_INTEGER*>(X509_CRL_get_ext_d2i(list, NID_crl_number, nullptr, nullptr)));
    uint64_t last = 0;
    if (number == nullptr) {
        number.reset(ASN1_INTEGER_new());
    } else if (ASN1_INTEGER_get_uint64(&last, number.get()) != 1) {
        return false;
    }
    return number != nullptr && ASN1_INTEGER_set_uint64(number.get(), last + 1) == 1 &&
           X509_CRL_add1_ext_i2d(list, NID_crl_number, number.get(), 0, X509V3_ADD_REPLACE) == 1;
}

}  // namespace

Result<std::vector<RevocationList>> parse_revocations(const std::string& text,
                                                      const std::string& path, Report& report) {
    std::vector<RevocationList> lists;
    const Memory memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    ERR_clear_error();
    for (;;) {
        RevocationList each(PEM_read_bio_X509_CRL(memory.get(), nullptr, nullptr, nullptr));
        if (each == nullptr) break;
        lists.push_back(std::move(each));
    }
    const unsigned long last = ERR_peek_last_error();
    const bool at_end =
        ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
    const std::string why = openssl_error();
    if (at_end && !lists.empty()) return lists;
    return report.fail(Code::invalid,
                       "{} is not a PEM file of lists of revoked certificates ({}); copy it again "
                       "from the authority",
                       path, why);
}

std::string revocation_file(const std::string& authority_file) {
    return std::filesystem::path(authority_file).replace_extension(".crl");
}

Result<std::string> read_revocations(const std::string& authority_file, Report& report) {
    const std::string path = revocation_file(authority_file);
    Report missing;
    auto text = read_file(path, missing);
    if (!text && text.error().code == Code::not_found) return std::string();
    if (!text) return report.fail(text.error(), missing.text());
    ROS2S_TRY(parse_revocations(*text, path, report));
    return text;
}

Seconds revocations_end(const std::string& text) {
    Report unused;
    const auto lists = parse_revocations(text, "", unused);
    Seconds end = Seconds::max();
    if (!lists) return end;
    for (const RevocationList& each : *lists) {
        const ASN1_TIME* const next = X509_CRL_get0_nextUpdate(each.get());
        if (next != nullptr) end = std::min(end, to_seconds(next));
    }
    return end;
}

Result<std::optional<Seconds>> revoked_at(const std::string& certificate_file,
                                          const std::string& authority_file, Report& report) {
    ROS2S_TRY_ASSIGN(const std::string certificate_text, read_file(certificate_file, report));
    ROS2S_TRY_ASSIGN(const Certificate certificate,
                     parse_certificate(certificate_text, certificate_file, report));
    ROS2S_TRY_ASSIGN(const std::string text, read_revocations(authority_file, report));
    if (text.empty()) return std::nullopt;
    ROS2S_TRY_ASSIGN(const auto lists,
                     parse_revocations(text, revocation_file(authority_file), report));
    const X509_NAME* const issuer = X509_get_issuer_name(certificate.get());
    for (const RevocationList& each : lists) {
        X509_REVOKED* entry = nullptr;
        if (X509_NAME_cmp(X509_CRL_get_issuer(each.get()), issuer) == 0 &&
            X509_CRL_get0_by_cert(each.get(), &entry, certificate.get()) == 1) {
            return to_seconds(X509_REVOKED_get0_revocationDate(entry));
        }
    }
    return std::nullopt;
}

bool use_revocations(X509_STORE* store, const std::string& text) {
    if (text.empty()) return true;
    Report unused;
    const auto lists = parse_revocations(text, "", unused);
    if (!lists) return false;
    for (const RevocationList& each : *lists) {
        if (X509_STORE_add_crl(store, each.get()) != 1) return false;
    }
    X509_STORE_set_verify_cb(store, judge_revocations);
    return X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) == 1;
}

int judge_revocations(int good, X509_STORE_CTX* context) noexcept {
    if (good == 1) return 1;
    switch (X509_STORE_CTX_get_error(context)) {
        case X509_V_ERR_UNABLE_TO_GET_CRL:
        case X509_V_ERR_CRL_HAS_EXPIRED:
        case X509_V_ERR_CRL_NOT_YET_VALID:
            // A TLS connection takes what stays here for the result of a verification that went on.
            X509_STORE_CTX_set_error(context, X509_V_OK);
            return 1;
        default: return 0;
    }
}

bool is_list_of(X509* authority, X509_CRL* list) {
    if (X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) != 0) {
        return false;
    }
    const KeyIdentifier identifier(static_cast<AUTHORITY_KEYID*>(
        X509_CRL_get_ext_d2i(list, NID_authority_key_identifier, nullptr, nullptr)));
    return identifier == nullptr || X509_check_akid(authority, identifier.get()) == X509_V_OK;
}

Result<RevocationList> next_list(X509* issuer, EVP_PKEY* key, const X509_CRL* before,
                                 const X509* certificate, Seconds now, Report& report) {
    RevocationList list(before == nullptr ? X509_CRL_new() : X509_CRL_dup(before));
    const Moment begin(ASN1_TIME_set(nullptr, now.time_since_epoch().count()));
    const Moment end(ASN1_TIME_set(nullptr, (now + list_lifetime).time_since_epoch().count()));
    const bool whole =
        list != nullptr && begin != nullptr && end != nullptr &&
        X509_CRL_set_version(list.get(), X509_CRL_VERSION_2) == 1 &&
        X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(issuer)) == 1 &&
        X509_CRL_set1_lastUpdate(list.get(), begin.get()) == 1 &&
        X509_CRL_set1_nextUpdate(list.get(), end.get()) == 1 &&
        (before != nullptr || add_key_identifier(list.get(), issuer)) &&
        increase_number(list.get()) && add_entry(list.get(), certificate, begin.get()) &&
        X509_CRL_sort(list.get()) == 1 && X509_CRL_sign(list.get(), key, EVP_sha256()) > 0;
    if (whole) return list;
    return report.fail(Code::io, "cannot make the list of revoked certificates: {}",
                       openssl_error());
}

}  // namespace ros2s::pki
