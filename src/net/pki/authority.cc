#include "ros2s/pki/authority.h"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "openssl.h"
#include "ros2s/base/durable_file.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/pki/revocation.h"

namespace ros2s::pki {
namespace {

constexpr std::string_view authority_name = "ca";
constexpr std::chrono::hours clock_difference{1};
constexpr std::chrono::days lifetime_max{36500};

std::unexpected<Error> openssl_failed(std::string_view what, Report& report) {
    return report.fail(Code::io, "cannot {}: {}", what, openssl_error());
}

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

Result<> check(const CertificateRequest& request, Report& report) {
    const std::string& name = request.name;
    if (name.empty() || name.size() > name_bytes_max ||
        !std::ranges::all_of(name, is_name_character) || name.front() == '.' ||
        name.front() == '-' || name == authority_name) {
        return report.fail(Code::invalid,
                           "'{}' cannot be a certificate's name: it has 1 to {} of [A-Za-z0-9._-], "
                           "does not begin with '.' or '-', and is not 'ca'; for example engine-1",
                           name, name_bytes_max);
    }
    if (request.server && request.alternative_names.empty()) {
        return report.fail(Code::invalid,
                           "the server '{}' needs the names and addresses under which clients "
                           "reach it; for example: --name engine-1.example.org --name 192.0.2.7",
                           name);
    }
    for (const std::string& other : request.alternative_names) {
        const bool is_dns = !other.empty() && other.size() <= 253 &&
                            std::ranges::all_of(other.starts_with("*.") ? other.substr(2) : other,
                                                is_name_character);
        if (!is_ip_address(other) && !is_dns) {
            return report.fail(
                Code::invalid,
                "'{}' is neither a DNS name nor an IP address; leave out port and scheme", other);
        }
    }
    if (request.lifetime < std::chrono::days(1) || request.lifetime > lifetime_max) {
        return report.fail(Code::invalid, "a lifetime is 1 to {} days, not {}",
                           lifetime_max.count(), request.lifetime.count());
    }
    return {};
}

// ---- certificates in memory ----------------------------------------------------------------

struct Signed {
    Certificate certificate;
    Key key;
};

bool add_text_extension(X509* certificate, X509* issuer, int kind, const char* value) {
    X509V3_CTX context{};
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
    return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Built from objects: in OpenSSL's configuration language a name could add other settings.
bool add_alternative_names(X509* certificate, const std::vector<std::string>& names) {
    const Names list(sk_GENERAL_NAME_new_null());
    if (list == nullptr) return false;
    for (const std::string& name : names) {
        GENERAL_NAME* entry = GENERAL_NAME_new();
        if (entry == nullptr || sk_GENERAL_NAME_push(list.get(), entry) == 0) {
            GENERAL_NAME_free(entry);
            return false;
        }
        if (ASN1_OCTET_STRING* address = a2i_IPADDRESS(name.c_str())) {
            GENERAL_NAME_set0_value(entry, GEN_IPADD, address);
            continue;
        }
        ASN1_IA5STRING* text = ASN1_IA5STRING_new();
        if (text == nullptr ||
            ASN1_STRING_set(text, name.data(), static_cast<int>(name.size())) != 1) {
            ASN1_IA5STRING_free(text);
            return false;
        }
        GENERAL_NAME_set0_value(entry, GEN_DNS, text);
    }
    return X509_add1_ext_i2d(certificate, NID_subject_alt_name, list.get(), 0,
                             X509V3_ADD_DEFAULT) == 1;
}

bool begin(X509* certificate, EVP_PKEY* key, const std::string& name, Seconds from, Seconds to) {
    std::array<unsigned char, 20> serial{};
    if (RAND_bytes(serial.data(), serial.size()) != 1) return false;
    serial[0] &= 0x7f;  // a positive number
    BIGNUM* number = BN_bin2bn(serial.data(), serial.size(), nullptr);
    const bool numbered = number != nullptr &&
                          BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
    BN_free(number);
    X509_NAME* subject = X509_get_subject_name(certificate);
    const auto* text = reinterpret_cast<const unsigned char*>(name.data());
    return numbered && X509_set_version(certificate, X509_VERSION_3) == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, text,
                                      static_cast<int>(name.size()), -1, 0) == 1 &&
           ASN1_TIME_set(X509_getm_notBefore(certificate), from.time_since_epoch().count()) !=
               nullptr &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), to.time_since_epoch().count()) !=
               nullptr &&
           X509_set_pubkey(certificate, key) == 1;
}

Result<Signed> sign_authority(const AuthorityRequest& request, Seconds now, Report& report) {
    Signed made{.certificate = Certificate(X509_new()), .key = Key(EVP_EC_gen("P-256"))};
    X509* certificate = made.certificate.get();
    const bool whole =
        made.key != nullptr && certificate != nullptr &&
        begin(certificate, made.key.get(), request.name, now - clock_difference,
              now + request.lifetime) &&
        X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1 &&
        add_text_extension(certificate, certificate, NID_basic_constraints,
                           "critical,CA:TRUE,pathlen:0") &&
        add_text_extension(certificate, certificate, NID_key_usage,
                           "critical,keyCertSign,cRLSign") &&
        add_text_extension(certificate, certificate, NID_subject_key_identifier, "hash") &&
        X509_sign(certificate, made.key.get(), EVP_sha256()) > 0;
    if (!whole) return openssl_failed("make the authority's certificate", report);
    return made;
}

Result<Signed> sign(const CertificateRequest& request, const Signed& authority, Seconds now,
                    Report& report) {
    const Seconds last = to_seconds(X509_get0_notAfter(authority.certificate.get()));
    if (last <= now) {
        return report.fail(Code::deadline,
                           "the authority's certificate expired at {}; make a new authority in "
                           "another directory: ros2store certs init DIR",
                           to_string(last));
    }
    Signed made{.certificate = Certificate(X509_new()), .key = Key(EVP_EC_gen("P-256"))};
    X509* certificate = made.certificate.get();
    X509* issuer = authority.certificate.get();
    const char* usage = request.server ? "serverAuth" : "clientAuth";
    const bool whole =
        made.key != nullptr && certificate != nullptr &&
        begin(certificate, made.key.get(), request.name, now - clock_difference,
              std::min(last, now + request.lifetime)) &&
        X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
        add_text_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
        add_text_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature") &&
        add_text_extension(certificate, issuer, NID_ext_key_usage, usage) &&
        add_text_extension(certificate, issuer, NID_subject_key_identifier, "hash") &&
        add_text_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always") &&
        (request.alternative_names.empty() ||
         add_alternative_names(certificate, request.alternative_names)) &&
        X509_sign(certificate, authority.key.get(), EVP_sha256()) > 0;
    if (!whole)
        return openssl_failed(fmt::format("make a certificate for '{}'", request.name), report);
    return made;
}

// ---- files ---------------------------------------------------------------------------------

std::string text_of(BIO* memory) {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(memory, &bytes);
    return {bytes, static_cast<size_t>(size)};
}

// `suffix` follows the final names until the files are renamed.
Result<> write_pair(const std::string& stem, const std::string& suffix, const Signed& made,
                    Report& report) {
    const Memory certificate(BIO_new(BIO_s_mem()));
    const Memory key(BIO_new(BIO_s_mem()));
    if (certificate == nullptr || key == nullptr ||
        PEM_write_bio_X509(certificate.get(), made.certificate.get()) != 1 ||
        PEM_write_bio_PKCS8PrivateKey(key.get(), made.key.get(), nullptr, nullptr, 0, nullptr,
                                      nullptr) != 1) {
        return openssl_failed("write a certificate", report);
    }
    ROS2S_TRY(create_file(stem + ".key" + suffix, text_of(key.get()), 0600, report));
    const auto written =
        create_file(stem + ".crt" + suffix, text_of(certificate.get()), 0644, report);
    if (!written) unlink((stem + ".key" + suffix).c_str());
    return written;
}

// Renames PATH.new.
Result<> put_in_place(const std::string& path, Report& report) {
    if (rename((path + ".new").c_str(), path.c_str()) == 0) return {};
    const int failure = errno;
    return report.fail(fail_errno(failure).error(), "cannot make the file {}: {}", path,
                       std::strerror(failure));
}

Result<> sync_directory(const std::string& directory, Report& report) {
    const auto synced = ros2s::sync_directory(directory);
    if (synced) return {};
    return report.fail(synced.error(), "cannot sync the directory {}: {}", directory,
                       std::strerror(to_errno(synced.error())));
}

std::string without_trailing_slashes(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
}

// The first name in a directory, in alphabetical order; empty if there is none.
std::string first_in(const std::string& directory) {
    std::string first;
    std::error_code failed;
    std::filesystem::directory_iterator entry(directory, failed);
    for (; !failed && entry != std::filesystem::directory_iterator{}; entry.increment(failed)) {
        const std::string name = entry->path().filename();
        if (first.empty() || name < first) first = name;
    }
    return first;
}

// A directory that is removed with its contents, unless it was kept.
class TemporaryDirectory {
  public:
    explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
    TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
    ~TemporaryDirectory() {
        std::error_code ignored;
        if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    }
    void keep() { path_.clear(); }

  private:
    std::string path_;
};

IssuedCertificate described(const std::string& directory, const std::string& name,
                            const Signed& made) {
    return {.name = name,
            .certificate_file = fmt::format("{}/{}.crt", directory, name),
            .key_file = fmt::format("{}/{}.key", directory, name),
            .expires = to_seconds(X509_get0_notAfter(made.certificate.get()))};
}

Result<Signed> read_authority(const std::string& directory, Report& report) {
    const std::string stem = fmt::format("{}/{}", directory, authority_name);
    if (access((stem + ".key").c_str(), F_OK) != 0 && errno == ENOENT) {
        return report.fail(Code::not_found,
                           "there is no {}.key; certificates are issued where the authority was "
                           "made: ros2store certs init DIR makes one",
                           stem);
    }
    Signed authority;
    ROS2S_TRY_ASSIGN(const std::string certificate, read_file(stem + ".crt", report));
    ROS2S_TRY_ASSIGN(const std::string key, read_file(stem + ".key", report));
    ROS2S_TRY_ASSIGN(authority.certificate, parse_certificate(certificate, stem + ".crt", report));
    ROS2S_TRY_ASSIGN(authority.key, parse_key(key, stem + ".key", report));
    if (X509_check_private_key(authority.certificate.get(), authority.key.get()) != 1) {
        return report.fail(Code::invalid, "{0}.key is not the key of {0}.crt", stem);
    }
    return authority;
}

// The certificate that revoke() names.
Result<Certificate> certificate_to_revoke(const std::string& directory, const std::string& named,
                                          const Signed& authority, Report& report) {
    const std::string file = named.contains('/') ? named : directory + "/" + named + ".crt";
    Report missing;
    const auto text = read_file(file, missing);
    if (!text) {
        return report.fail(text.error(),
                           "{}; give the name of a certificate in {}, or the path of a certificate "
                           "file, with a '/'",
                           missing.text(), directory);
    }
    ROS2S_TRY_ASSIGN(Certificate certificate, parse_certificate(*text, file, report));
    if (X509_cmp(certificate.get(), authority.certificate.get()) == 0) {
        return report.fail(Code::invalid,
                           "{} is the authority's own certificate; replace the authority instead: "
                           "ros2store certs init DIR makes a new one",
                           file);
    }
    X509* const issuer = authority.certificate.get();
    if (X509_NAME_cmp(X509_get_issuer_name(certificate.get()), X509_get_subject_name(issuer)) !=
            0 ||
        X509_verify(certificate.get(), authority.key.get()) != 1) {
        (void)openssl_error();
        return report.fail(Code::invalid,
                           "{} was not issued by the authority in {}; name the directory where it "
                           "was issued",
                           file, directory);
    }
    return certificate;
}

}  // namespace

Result<std::vector<IssuedCertificate>> make_authority(const std::string& where,
                                                      const AuthorityRequest& request, Seconds now,
                                                      Report& report) {
    const std::string directory = without_trailing_slashes(where);
    for (const auto& each : request.certificates) ROS2S_TRY(check(each, report));
    if (request.name.empty() || request.name.size() > name_bytes_max ||
        request.lifetime < std::chrono::days(1) || request.lifetime > lifetime_max) {
        return report.fail(
            Code::invalid,
            "the name of an authority has 1 to {} bytes, its certificate is valid for 1 to {} days",
            name_bytes_max, lifetime_max.count());
    }
    if (const std::string there = first_in(directory); !there.empty()) {
        return report.fail(
            Code::exists,
            "{0} is not empty ({1} is in it), and nothing is overwritten; choose a new directory, "
            "or issue one more certificate: ros2store certs issue {0} NAME",
            directory, there);
    }
    ROS2S_TRY(check_trusted(directory, report));
    std::string building = directory + ".XXXXXX";
    if (mkdtemp(building.data()) == nullptr) {
        const int failure = errno;
        return report.fail(fail_errno(failure).error(), "cannot make a directory in {}: {}; {}",
                           parent_of(directory), std::strerror(failure),
                           failure == ENOENT ? "make it first: mkdir -p " + parent_of(directory)
                                             : "choose a directory that you may write to");
    }
    TemporaryDirectory temporary(building);
    ROS2S_TRY_ASSIGN(const Signed authority, sign_authority(request, now, report));
    ROS2S_TRY(write_pair(fmt::format("{}/{}", building, authority_name), "", authority, report));
    std::vector<IssuedCertificate> issued{
        described(directory, std::string(authority_name), authority)};
    for (const CertificateRequest& each : request.certificates) {
        ROS2S_TRY_ASSIGN(const Signed made, sign(each, authority, now, report));
        ROS2S_TRY(write_pair(building + "/" + each.name, "", made, report));
        issued.push_back(described(directory, each.name, made));
    }
    ROS2S_TRY(sync_directory(building, report));
    if (rename(building.c_str(), directory.c_str()) != 0) {
        const int failure = errno;
        return report.fail(fail_errno(failure).error(), "cannot make the directory {}: {}",
                           directory, std::strerror(failure));
    }
    temporary.keep();
    ROS2S_TRY(sync_directory(parent_of(directory), report));
    return issued;
}

Result<IssuedCertificate> issue(const std::string& where, const CertificateRequest& request,
                                bool replace, Seconds now, Report& report) {
    const std::string directory = without_trailing_slashes(where);
    ROS2S_TRY(check(request, report));
    ROS2S_TRY_ASSIGN(const Signed authority, read_authority(directory, report));
    const std::string stem = directory + "/" + request.name;
    for (const char* ending : {".crt", ".key"}) {
        if (!replace && access((stem + ending).c_str(), F_OK) == 0) {
            return report.fail(Code::exists,
                               "{}{} already exists; choose another name, or --replace it (running "
                               "programs use the new one automatically)",
                               stem, ending);
        }
    }
    ROS2S_TRY_ASSIGN(const Signed made, sign(request, authority, now, report));
    // Left by an earlier run that was killed.
    unlink((stem + ".key.new").c_str());
    unlink((stem + ".crt.new").c_str());
    ROS2S_TRY(write_pair(stem, ".new", made, report));
    for (const char* ending : {".key", ".crt"}) ROS2S_TRY(put_in_place(stem + ending, report));
    ROS2S_TRY(sync_directory(directory, report));
    return described(directory, request.name, made);
}

Result<RevokedCertificate> revoke(const std::string& where, const std::string& named, Seconds now,
                                  Report& report) {
    const std::string directory = without_trailing_slashes(where);
    ROS2S_TRY_ASSIGN(const Signed authority, read_authority(directory, report));
    ROS2S_TRY_ASSIGN(const Certificate certificate,
                     certificate_to_revoke(directory, named, authority, report));
    const std::string authority_file = fmt::format("{}/{}.crt", directory, authority_name);
    const std::string path = revocation_file(authority_file);
    RevokedCertificate revoked{
        .subject = name_text(X509_get_subject_name(certificate.get())),
        .serial = serial_text(certificate.get()),
        .list_file = path,
        .server = X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_CLIENT, 0) != 1};
    ROS2S_TRY_ASSIGN(const std::string text, read_revocations(authority_file, report));
    std::vector<RevocationList> lists;
    if (!text.empty()) {
        ROS2S_TRY_ASSIGN(lists, parse_revocations(text, path, report));
    }
    // The file may have lists of other authorities, too. They stay.
    const auto own = std::ranges::find_if(lists, [&](const RevocationList& each) {
        return is_list_of(authority.certificate.get(), each.get());
    });
    if (own != lists.end() && X509_CRL_verify(own->get(), authority.key.get()) != 1) {
        (void)openssl_error();
        return report.fail(Code::invalid,
                           "the signature of the authority's list in {} is wrong, so the revoked "
                           "certificates are unknown; put back an earlier copy of the file",
                           path);
    }
    X509_CRL* const before = own == lists.end() ? nullptr : own->get();
    X509_REVOKED* entry = nullptr;
    if (before != nullptr && X509_CRL_get0_by_cert(before, &entry, certificate.get()) == 1) {
        return report.fail(Code::exists,
                           "the certificate of {} (serial {}) was revoked before, at {}; {} has it",
                           revoked.subject, revoked.serial,
                           to_string(to_seconds(X509_REVOKED_get0_revocationDate(entry))), path);
    }
    ROS2S_TRY_ASSIGN(RevocationList next,
                     next_list(authority.certificate.get(), authority.key.get(), before,
                               certificate.get(), now, report));
    if (before != nullptr) lists.erase(own);
    lists.push_back(std::move(next));
    const Memory memory(BIO_new(BIO_s_mem()));
    for (const RevocationList& each : lists) {
        if (memory == nullptr || PEM_write_bio_X509_CRL(memory.get(), each.get()) != 1) {
            return openssl_failed("write the list of revoked certificates", report);
        }
    }
    unlink((path + ".new").c_str());  // left by an earlier run that was killed
    ROS2S_TRY(create_file(path + ".new", text_of(memory.get()), 0644, report));
    ROS2S_TRY(put_in_place(path, report));
    ROS2S_TRY(sync_directory(directory, report));
    return revoked;
}

}  // namespace ros2s::pki
