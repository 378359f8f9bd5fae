// Policy: the rights of all principals at one server, from all of its sources, at one time. It does
// not change. Whoever has news makes another one, with another epoch.
//
//     settings, tenants of pools ─ grants ─► Policy ─► decide()
//
// A policy ends, by pool, when the engine has been silent for too long. It then decides nothing,
// and its owner makes the next one. The end of a tenant is news, within 250 ms. If there was no
// news, the next one is the same with a later end, and has the same epoch: earlier decisions stay
// valid.
//
// Copies share the parties. Any thread.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/capability/capability.h"
#include "ros2s/rights/grants/grant.h"
#include "ros2s/rights/user_mapping.h"
#include "ros2s/runtime/time.h"

namespace ros2s::rights {

// A chain of capabilities whose signatures were verified. Its holder has this part of the rights of
// the tenant, and no more.
struct VerifiedCapability {
    std::string pool;
    capability::Capability first, last;  // of the chain, perhaps the same one
};

// Who wants something of a pool: the subject of a certificate, with its tenant in the pool, and
// what limits it there.
struct Principal {
    std::string subject;
    std::string tenant{};  // empty: it has none in the pool
    // The name under which it owns containers. Empty: it owns none.
    std::string owner{};
    UserMapping users{};
    std::shared_ptr<const VerifiedCapability> capability{};  // null: none
    // At a delegated DPU: what programs of its tenant handed over.
    std::vector<Grant> handed_over{};
};

// A tenant of a pool, which its capabilities name.
struct TenantParty {
    std::string owner;  // the name under which it owns containers; empty: it owns none here
    bool is_active = false;
    uint64_t generation = 0;
    uint64_t revocations = 0;  // of single capabilities, ever
    WallTime clock_min{};      // no capability is valid before it
    std::vector<Grant> grants{};
    std::set<Uuid> revoked_capabilities{};
    std::vector<capability::PublicKey> revoked_programs{};
};

// The subject of a certificate.
struct SubjectParty {
    std::vector<Grant> grants{};
    std::map<std::string, std::string, std::less<>> tenants{};  // by pool: its active tenant
    std::set<std::string, std::less<>> ended{};  // pools where its tenant is revoked or expired
    std::map<std::string, UserMapping, std::less<>> users{};  // by pool; "": where no tenant says
};

using Subjects = std::map<std::string, SubjectParty, std::less<>>;

struct Parties {
    Subjects subjects{};
    std::map<std::pair<std::string, std::string>, TenantParty> tenants{};  // by pool and name
    std::set<std::string, std::less<>> delegates{};  // DPUs, which show capabilities of tenants
    // At an engine, a subject without a tenant owns what it creates, unless it is one of these.
    bool subjects_own = false;
    std::set<std::string, std::less<>> administrators{};
};

class Policy {
  public:
    Policy() : Policy(Parties{}, 0) {}  // nobody has a right
    Policy(Parties parties, uint64_t epoch)
        : parties_(std::make_shared<const Parties>(std::move(parties))), epoch_(epoch) {}

    [[nodiscard]] uint64_t epoch() const { return epoch_; }
    // After news: these parties, the next epoch, and the same ends.
    [[nodiscard]] Policy next(Parties parties) const;
    // Without news: the same policy, which now ends at that time in the pool.
    [[nodiscard]] Policy renewed(const std::string& pool, Time until) const;
    // Time::max(): it has no end. For a pool whose rights this server keeps itself.
    [[nodiscard]] Time end_of(std::string_view pool) const;
    // Of those that have one.
    [[nodiscard]] const std::map<std::string, Time, std::less<>>& ends() const { return ends_; }
    [[nodiscard]] bool is_over(std::string_view pool, Time now) const { return now > end_of(pool); }

    // Without a capability.
    [[nodiscard]] Principal principal(std::string_view subject, std::string_view pool) const;
    // The subject that shows that chain: the tenant's rights, as far as the capability has them.
    [[nodiscard]] Principal holder(std::string_view subject,
                                   std::shared_ptr<const VerifiedCapability> shown) const;
    // Null: there is none.
    [[nodiscard]] const SubjectParty* subject(std::string_view subject) const;
    [[nodiscard]] const TenantParty* tenant(std::string_view pool, std::string_view name) const;
    [[nodiscard]] bool is_delegate(std::string_view subject) const {
        return parties_->delegates.contains(subject);
    }
    // True if the subject has all rights in the pool that `earlier` gives it, for the same users.
    [[nodiscard]] bool covers(const Policy& earlier, std::string_view subject,
                              std::string_view pool) const;

  private:
    [[nodiscard]] std::string owner_of(std::string_view subject, const SubjectParty* party,
                                       std::string_view pool) const;
    std::shared_ptr<const Parties> parties_;
    uint64_t epoch_;
    std::map<std::string, Time, std::less<>> ends_;
};

}  // namespace ros2s::rights
