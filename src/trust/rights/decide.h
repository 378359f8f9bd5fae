// decide(): whether a principal may do something in a container. Nothing else decides this.
//
//     policy ended? ─ capability still good? ─ owner? ─ grants ─► Decision
//
// A session keeps the decision, which is valid as long as the policy's epoch is the same.
//
// A plain function; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/access/subtree.h"
#include "ros2s/rights/policy.h"

namespace ros2s::rights {

// The right that is wanted. `see`: to know that the container exists; `see_pool`: that the pool
// exists.
enum class Wanted : uint8_t { see_pool, see, read, write, create, destroy };
[[nodiscard]] std::string_view to_string(Wanted what) noexcept;
[[nodiscard]] Wanted wanted(Right right) noexcept;

struct Container {
    std::string_view pool{};
    std::string_view label{};  // not used for `see_pool`
    std::string_view owner{};  // empty: it has none, or does not exist yet
};

// Both clocks. By default, a time at which no policy and no capability has ended.
struct Moment {
    Time now = Time::min();
    std::optional<WallTime> wall{};  // the engine's clock; none: capabilities are in their time
};

enum class Why : uint8_t {
    granted,
    owned,
    not_granted,
    policy_over,     // the engine is silent, or the next policy is due
    tenant_ended,    // it was revoked or has expired
    unknown_tenant,  // of a capability
    tenant_changed,  // since the capability was issued
    clock_behind,    // by it, capabilities would be valid that were revoked
    capability_revoked,
    capability_out_of_time,
    capability_lacks,        // the right, or the container
    capability_for_dpu,      // it was narrowed for one, and its holder is none
    capability_others,       // its holder is of another tenant
    capability_directories,  // its holder cannot check them
};
// For people; the end of a sentence.
[[nodiscard]] std::string_view to_string(Why why) noexcept;

struct Decision {
    enum class Scope : uint8_t { none, whole, subtrees };
    Scope scope = Scope::none;
    // Nothing may be written. A mount for writing is then one for reading, and writes fail with
    // EROFS.
    bool read_only = true;
    std::vector<access::Subtree> subtrees{};  // if the scope is that
    Why why = Why::not_granted;
    uint64_t epoch = 0;  // of the policy

    [[nodiscard]] bool is_none() const { return scope == Scope::none; }
    // Whether all of the container may be used so.
    [[nodiscard]] bool is_whole_for(Wanted what) const {
        return scope == Scope::whole && (what != Wanted::write || !read_only);
    }
    // Whether some of it may, for a holder that checks directories itself.
    [[nodiscard]] bool is_some_for(Wanted what) const {
        return !is_none() && (what != Wanted::write || !read_only);
    }
    [[nodiscard]] bool is_current(const Policy& policy) const { return epoch == policy.epoch(); }
    // For people: "whole, read only", "none: the policy is over", "a (read), b (write)".
    [[nodiscard]] std::string text() const;
};

// - read: what may be read. `read_only` is false if some of it may also be written.
// - write: what may be used by a mount for writing. The subtrees are writable or not, and may
//   include the whole container, to be read.
// - create: the container does not exist. An owner has no such right.
// - see, see_pool: whole, or none. Any right is enough, also on a directory.
// - destroy: whole, or none.
[[nodiscard]] Decision decide(const Policy& policy, const Principal& principal,
                              const Container& container, Wanted what, Moment moment = {});

// Whether the tenant's record still has the capability, and it is in its time. `granted`: yes.
[[nodiscard]] Why check_capability(const Policy& policy, const VerifiedCapability& capability,
                                   Moment moment = {});
// The same, and whether this principal may show the capability that it has.
[[nodiscard]] Why check_holder(const Policy& policy, const Principal& principal,
                               Moment moment = {});
// True if a tenant with these grants may have a capability for that use: it has the rights, or, for
// directories, has them in one of the container.
[[nodiscard]] bool give(std::span<const Grant> grants, const std::string& pool,
                        const capability::Use& use);

}  // namespace ros2s::rights
