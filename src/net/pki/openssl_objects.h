// Owners of OpenSSL's objects, and texts that it gives, for all modules that use certificates.
#pragma once
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

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
using Memory = std::unique_ptr<BIO, FreeBy<BIO_free_all>>;
using Settings = std::unique_ptr<SSL_CTX, FreeBy<SSL_CTX_free>>;
using Connection = std::unique_ptr<SSL, FreeBy<SSL_free>>;

// The last error of this thread's OpenSSL queue, which it empties: "no start line".
[[nodiscard]] std::string openssl_error();
// As RFC 2253 writes it: "CN=engine". Empty if there is no memory.
[[nodiscard]] std::string name_text(const X509_NAME* name);
[[nodiscard]] bool is_ip_address(const std::string& name);
// The server's certificate must have this host name or IP address. False: it cannot be a server's
// name, or there is no memory.
[[nodiscard]] bool expect_name(SSL* tls, const std::string& name);

}  // namespace ros2s::pki
