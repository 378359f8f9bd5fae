// AuditEvent: who did or wanted what with which object, what was decided, and why: one line of the
// log, with fields (log_fields.h) for programs that read it:
//
//     audit: CN=bob (unix:) may not use the pool 'lustre': refused; … [tenant="CN=bob" peer=unix:
//     action=use pool=lustre decision=refused reason=EPERM]
//
// An event that leaves out a part does not compile. A part may be unknown, and is then empty.
#pragma once
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "result.h"

namespace ros2s {

// A closed set: programs that read the log compare these words.
enum class AuditAction : uint8_t {
    connect,     // to a listener, before there is a session
    session,     // open, find or end a session
    use,         // a pool, or a container on the data plane
    mount,       // a container, or find what a mount has
    create,      // a container
    destroy,     // a container
    administer,  // tenants, and the owner and caps of containers
    capability,  // request, show or hand over a capability
    memory,      // name memory in a request
    call,        // a call of the control plane that is none of these
    read,        // of a request on the data plane: bytes of files and objects
    write,
    look,    // names and attributes
    change,  // the same
};
enum class AuditDecision : uint8_t { allowed, refused, ended };

[[nodiscard]] std::string_view to_string(AuditAction action) noexcept;
[[nodiscard]] std::string_view to_string(AuditDecision decision) noexcept;

// As far as it is known.
struct AuditObject {
    std::string_view pool{}, container{};
    std::string_view subtree{};  // the directory, if it is not the whole container
    uint64_t node = 0;
};

// A part that has no default.
template <class T>
class Required {
  public:
    template <std::convertible_to<T> From>
    constexpr Required(From&& value)  // NOLINT(google-explicit-constructor, bugprone-forwarding*)
        : value_(std::forward<From>(value)) {}
    [[nodiscard]] constexpr const T& operator*() const noexcept { return value_; }

  private:
    T value_;
};

// Texts must outlive it: it is made in the call that writes it.
struct AuditEvent {
    Required<std::string_view> subject;  // of the certificate, or the tenant
    Required<std::string_view> peer;
    Required<uint64_t> session;  // 0: none
    Required<AuditAction> action;
    Required<AuditObject> object;
    Required<AuditDecision> decision;
    Required<std::optional<Error>> reason;  // none: it was allowed, or ended as its owner wanted
    Required<std::string_view> text;        // a sentence for people, with the reason
    // The subject that showed the tenant's capability; empty: it is no capability's.
    std::string_view shown_by{};
};

// `left_out`: earlier ones that were not written. Sessions that open, or end without a reason, have
// no "audit: ".
[[nodiscard]] std::string audit_line(const AuditEvent& event, uint64_t left_out = 0);

}  // namespace ros2s
