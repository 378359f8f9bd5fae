// Tenant: the rights and limits of a party in one pool. The engine keeps the pool's tenants
// (TenantRegistry). DPUs follow them (Policy).
//
// A tenant has subjects of certificates, rights on containers of the pool, and limits. Its settings
// are texts, and have the same form on the command line, on the wire and in the file:
//
//     subjects  "CN=alice; CN=alice-2"        read, write, create, destroy  "images, alice-*"
//                                             read, write  also directories: "images/cats"
//     until     "2027-01-01T00:00:00Z"        weight, requests, bytes, names, burst,
//                                             sessions, handles, requests_in_flight,
//                                             bytes_in_flight  as in `limits`
//     space     "1TiB"                         files      "10M"
//     users, groups, root_squash (default: yes), squash, uid_map, gid_map, may  as in UserMapping
//
// Plain values; any thread.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/admission/accounts.h"
#include "ros2s/base/result.h"
#include "ros2s/base/uuid.h"
#include "ros2s/capability/capability.h"
#include "ros2s/config/config.h"
#include "ros2s/object/object_store.h"
#include "ros2s/rights/settings.h"

namespace ros2s::tenancy {

inline constexpr size_t tenants_max = 1024;  // of a pool
inline constexpr size_t setting_bytes_max = 4096;
inline constexpr size_t revoked_capabilities_max = 256;  // of a tenant, which have not expired
// Of all tenants of a pool. A file of 1 MiB (config::parse() takes no more) has room for them, at
// 123 bytes each and 67 for each tenant with some (428 KiB); for all settings; and for the
// revocation, the expiry and the least clock of 1,024 tenants, at 81 bytes each (81 KiB), which
// therefore never fail.
inline constexpr size_t pool_revoked_capabilities_max = 3000;
inline constexpr size_t pool_settings_bytes_max = size_t{512} << 10;

// A single capability that was revoked, until it has expired.
struct RevokedCapability {
    // Of the program for which it was issued, and which gets no other one meanwhile. None: unknown.
    std::optional<capability::PublicKey> program{};
    WallTime until{};
    friend bool operator==(const RevokedCapability&, const RevokedCapability&) = default;
};
using RevokedCapabilities = std::map<Uuid, RevokedCapability>;

struct Tenant {
    std::string name;         // as a container's label: 1 to 127 of [A-Za-z0-9._-]
    uint64_t generation = 1;  // increases with each change
    // At its creation. Another one if a tenant was removed before, perhaps of that name.
    uint64_t first_generation = 1;
    bool revoked = false;  // it has no rights any more, and its subjects none in the pool
    // Its `until` has been reached. A clock that is set back does not end this; another `until`
    // does.
    bool expired = false;
    uint64_t revocations = 0;  // of single capabilities, ever
    RevokedCapabilities revoked_capabilities{};
    // Of the revocations that were dropped, the latest time at which their capability had expired.
    // By a clock before it, those capabilities would be valid, unless the generation increases.
    WallTime clock_min{};
    config::Entries settings{};  // as they were given

    // The parsed form.
    std::vector<std::string> subjects{};
    std::vector<rights::Grant> grants{};  // in its pool, whose name they do not have
    rights::UserMapping users{.root_squash = true};
    std::optional<WallTime> until{};
    std::optional<admission::Allowance> allowance{};  // none: no limit is set
    object::Amount caps{};                            // of all containers that it owns; 0: no cap

    [[nodiscard]] bool is_active(WallTime now) const {
        return !revoked && !expired && (!until || now < *until);
    }
    // The name under which it owns containers: "alice", or "alice#7". No two tenants of a pool have
    // ever had the same one.
    [[nodiscard]] std::string owner() const;
    [[nodiscard]] bool has_subject(std::string_view subject) const;
    // True if a capability of this program was revoked. It gets no other one for an hour.
    [[nodiscard]] bool has_revoked(const capability::PublicKey& program) const;
    // True if the chain with this first and last link was revoked, or another one of its program.
    [[nodiscard]] bool has_revoked(const capability::Capability& first,
                                   const capability::Capability& last) const;
    friend bool operator==(const Tenant&, const Tenant&) = default;
};
using TenantsByName = std::map<std::string, Tenant, std::less<>>;
// The tenant of the subject, also one that has ended; null: it has none.
[[nodiscard]] const Tenant* tenant_of(const TenantsByName& tenants, std::string_view subject);

// What the file has.
struct TenantsOfPool {
    TenantsByName tenants{};
    // The highest generation that a removed tenant had. Later tenants begin above it, so that no
    // capability of a removed tenant is valid for one that gets its name. 0: none was removed.
    uint64_t removed_generation = 0;

    // A tenant that is not in `tenants` yet.
    [[nodiscard]] Tenant make(std::string name) const;
    friend bool operator==(const TenantsOfPool&, const TenantsOfPool&) = default;
};

// Caps as texts: space in bytes ("1TiB"); files ("10M") as the single values that they need. 0: no
// cap. Errors: invalid, with a sentence that begins with `where`.
[[nodiscard]] Result<uint64_t> parse_space_cap(const std::string& text, std::string_view where,
                                               Report& report);
[[nodiscard]] Result<uint64_t> parse_files_cap(const std::string& text, std::string_view where,
                                               Report& report);

// Fills the parsed form. Errors: invalid, with a sentence that begins with `where`.
[[nodiscard]] Result<> parse_settings(Tenant& tenant, const SettingPlace& where, Report& report);
// True if a change to that text removes the setting: it is empty, or `none` for a limit or a cap.
[[nodiscard]] bool is_removal(std::string_view name, std::string_view text);
// A subject has one tenant. Errors: exists, with a sentence.
[[nodiscard]] Result<> check_subjects(const TenantsByName& tenants, const Tenant& changed,
                                      Report& report);

// The YAML file with all tenants of a pool, and back. Errors: invalid, too_large; the report names
// the line and the setting.
[[nodiscard]] std::string document_of(const TenantsOfPool& pool);
[[nodiscard]] Result<TenantsOfPool> parse_document(std::string_view yaml, std::string_view where,
                                                   Report& report);

}  // namespace ros2s::tenancy
