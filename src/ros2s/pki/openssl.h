// Owners of OpenSSL's objects, and its error messages.
#pragma once
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/pki/authority.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::pki {

template <auto function>
struct FreeBy {
    template <class T>
    void operator()(T* object) const noexcept {
        function(object);
    }
};
using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, FreeBy<X509_EXTENSION_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, FreeBy<GENERAL_NAMES_free>>;
using Memory = std::unique_ptr<BIO, FreeBy<BIO_free_all>>;

// The last error of this thread's OpenSSL queue, which it empties: "no start line".
[[nodiscard]] std::string openssl_error();

// Errors: those of errno.
[[nodiscard]] Result<std::string> read_file(const std::string& path, Report& report);
// Creates the file with this mode from the first moment; it is durable on return. Errors: exists,
// those of errno.
[[nodiscard]] Result<> create_file(const std::string& path, const std::string& text, int mode,
                                   Report& report);

// `path` is for the sentence. Errors: invalid.
[[nodiscard]] Result<Certificate> parse_certificate(const std::string& text,
                                                    const std::string& path, Report& report);
[[nodiscard]] Result<Key> parse_key(const std::string& text, const std::string& path,
                                    Report& report);
[[nodiscard]] CertificateFacts facts_of(const X509* certificate);
[[nodiscard]] Seconds to_seconds(const ASN1_TIME* time);

}  // namespace ros2s::pki
