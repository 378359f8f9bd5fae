// The sources of this module share these functions for files, and for certificates as OpenSSL's
// objects.
#pragma once
#include <openssl/x509v3.h>

#include <string>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/pki/authority.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/pki/openssl_objects.h"

namespace ros2s::pki {

using Extension = std::unique_ptr<X509_EXTENSION, FreeBy<X509_EXTENSION_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, FreeBy<GENERAL_NAMES_free>>;
using RevocationList = std::unique_ptr<X509_CRL, FreeBy<X509_CRL_free>>;

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
// At least one list.
[[nodiscard]] Result<std::vector<RevocationList>> parse_revocations(const std::string& text,
                                                                    const std::string& path,
                                                                    Report& report);
// Returns true if the list is in the name of this authority and its key; other authorities may have
// the same name. The signature is not checked.
[[nodiscard]] bool is_list_of(X509* authority, X509_CRL* list);
// The authority's list with one more certificate. `before`: its list so far, or nothing.
[[nodiscard]] Result<RevocationList> next_list(X509* authority, EVP_PKEY* key,
                                               const X509_CRL* before, const X509* certificate,
                                               Seconds now, Report& report);
// As `openssl x509 -serial` prints it: "5B0C…". Empty if there is no memory.
[[nodiscard]] std::string serial_text(const X509* certificate);
[[nodiscard]] CertificateFacts facts_of(const X509* certificate);
[[nodiscard]] Seconds to_seconds(const ASN1_TIME* time);

}  // namespace ros2s::pki
