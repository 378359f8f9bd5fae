// Lists of revoked certificates (X.509 CRLs), in a file beside the authority's: DIR/ca.crl for
// DIR/ca.crt. The file is optional. It is PEM, with one list of each authority that publishes one.
//
// An authority without a list has revoked nothing. A list that should have been replaced by now, or
// that begins later by the clock here, is used as it is: what it revokes is revoked. If the
// signature of an authority's list is wrong, none of its certificates is valid. Why:
// docs/decisions/0581.
//
// Plain functions; any thread. Functions that read a file block. An error comes with one sentence.
#pragma once
#include <optional>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/pki/authority.h"

// OpenSSL's X509_STORE and X509_STORE_CTX: programs without OpenSSL use the other functions.
struct x509_store_st;
struct x509_store_ctx_st;

namespace ros2s::pki {

// The authority's file, with the ending .crl.
[[nodiscard]] std::string revocation_file(const std::string& authority_file);

// The text of that file; empty if there is no such file. Errors: denied, invalid (not a PEM file of
// lists), those of files.
[[nodiscard]] Result<std::string> read_revocations(const std::string& authority_file,
                                                   Report& report);

// The time at which the first of the lists should have been replaced; the end of time if there is
// none.
[[nodiscard]] Seconds revocations_end(const std::string& text);

// When a list beside the authority's file revoked a certificate. Whether the signature of the list
// is right is not checked. Errors: those of read_certificate() and read_revocations().
[[nodiscard]] Result<std::optional<Seconds>> revoked_at(const std::string& certificate_file,
                                                        const std::string& authority_file,
                                                        Report& report);

// Verifications by `store` refuse what the lists revoke. Without a list they cost what they cost
// before. False: the text cannot be used.
[[nodiscard]] bool use_revocations(x509_store_st* store, const std::string& text);

// use_revocations() gives it to the store as its callback. A TLS connection replaces that by its
// own, which must call this one first and take its result for OpenSSL's.
int judge_revocations(int good, x509_store_ctx_st* context) noexcept;

}  // namespace ros2s::pki
