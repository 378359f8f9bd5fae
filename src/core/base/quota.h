// Quota: a bound that clients share without trusting each other. It counts by tenant, and within a
// tenant by subject: a user of a machine, a certificate, or a mount.
//
// A tenant may take more only while it has no more than what is still free. So one tenant alone
// gets half of the limit, n tenants 1/(n + 1) each, and the same is left for another client, such
// as an operator. The subjects of a tenant may share its part by the same rule. In addition there
// are limits for one subject, for one tenant and for all.
//
// Owned by what has the bound. Threads: any, one at a time, which the owner ensures. It outlives
// its shares.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <utility>

#include "ros2s/base/check.h"

namespace ros2s {

// Returns true if a client that has `has` of the `used` ones, of at most `most`, may not have one
// more. A client that has none is never refused by this.
[[nodiscard]] constexpr bool exceeds_fair_share(uint64_t has, uint64_t used, uint64_t most) {
    return has > 0 && has >= (most > used ? most - used : 0);
}

// `Tenant` and `Subject`: numbers or names.
template <class Tenant = uint64_t, class Subject = uint64_t>
class QuotaOf {
  public:
    struct Bounds {
        uint64_t per_subject = UINT64_MAX;
        uint64_t per_tenant = UINT64_MAX;
        uint64_t in_all = UINT64_MAX;
        // A tenant may always have this much, even if all others have taken `in_all`.
        uint64_t sure = 0;
        // A subject counts within its tenant, and leaves as much to the tenant's others. Otherwise
        // it counts over all of its tenants.
        bool subjects_share = false;
    };
    struct Who {
        Tenant tenant{};
        Subject subject{};
        auto operator<=>(const Who&) const = default;
    };
    enum class Limit : uint8_t { subject, tenant, all };

  private:
    struct Count {
        uint64_t used = 0;
        uint64_t shares = 0;
    };
    using Tenants = std::map<Tenant, Count, std::less<>>;
    using Subjects = std::map<Who, Count>;

  public:
    // A taken amount. Its end gives it back.
    class [[nodiscard]] Share {
      public:
        Share() = default;
        Share(Share&& other) noexcept
            : quota_(std::exchange(other.quota_, nullptr)),
              tenant_(other.tenant_),
              subject_(other.subject_),
              amount_(other.amount_) {}
        Share& operator=(Share&& other) noexcept {
            if (this == &other) return *this;
            end();
            quota_ = std::exchange(other.quota_, nullptr);
            tenant_ = other.tenant_;
            subject_ = other.subject_;
            amount_ = other.amount_;
            return *this;
        }
        ~Share() { end(); }
        void end() noexcept {
            if (quota_ == nullptr) return;
            subtract(amount_);
            if (--tenant_->second.shares == 0) quota_->tenants_.erase(tenant_);
            if (--subject_->second.shares == 0) quota_->subjects_.erase(subject_);
            quota_ = nullptr;
        }
        // More of the same, even beyond a limit.
        void add(uint64_t amount = 1) noexcept {
            for (uint64_t* const each : counters()) *each += amount;
        }
        void subtract(uint64_t amount = 1) noexcept {
            for (uint64_t* const each : counters()) *each -= amount;
        }
        // As take().
        [[nodiscard]] std::expected<void, Limit> check(uint64_t amount = 1) const {
            return quota_->check(tenant_->second.used, subject_->second.used, amount,
                                 quota_->used_);
        }
        // True if its last one would be refused now.
        [[nodiscard]] bool is_beyond() const {
            return amount_ > 0 && !quota_->check(tenant_->second.used - 1,
                                                 subject_->second.used - 1, 1, quota_->used_ - 1);
        }
        [[nodiscard]] uint64_t amount() const noexcept { return amount_; }
        [[nodiscard]] uint64_t of_tenant() const noexcept { return tenant_->second.used; }

      private:
        friend class QuotaOf;
        Share(QuotaOf& quota, const Who& who, uint64_t amount)
            : quota_(&quota),
              tenant_(quota.tenants_.try_emplace(who.tenant).first),
              subject_(quota.subjects_.try_emplace(quota.key_of(who)).first) {
            ++tenant_->second.shares;
            ++subject_->second.shares;
            add(amount);
        }
        std::array<uint64_t*, 4> counters() noexcept {
            return {&quota_->used_, &tenant_->second.used, &subject_->second.used, &amount_};
        }
        QuotaOf* quota_ = nullptr;
        typename Tenants::iterator tenant_{};
        typename Subjects::iterator subject_{};
        uint64_t amount_ = 0;
    };

    explicit QuotaOf(Bounds bounds) : bounds_(bounds) {}
    QuotaOf& operator=(QuotaOf&&) = delete;
    ~QuotaOf() { ROS2S_CHECK(subjects_.empty()); }

    // Errors: the limit that refuses it.
    [[nodiscard]] std::expected<Share, Limit> take(const Who& who, uint64_t amount = 1) {
        if (const auto allowed = check(who, amount); !allowed) {
            return std::unexpected(allowed.error());
        }
        return Share(*this, who, amount);
    }
    // A share of any size, even beyond a limit: what was taken already, and counts here from now
    // on.
    [[nodiscard]] Share count(const Who& who, uint64_t amount) { return Share(*this, who, amount); }
    [[nodiscard]] std::expected<void, Limit> check(const Who& who, uint64_t amount = 1) const {
        return check(used_by_tenant(who.tenant), used(who), amount, used_);
    }
    // The most that take() would give now.
    [[nodiscard]] uint64_t room(const Who& who) const {
        const Room room = room_for(used_by_tenant(who.tenant), used(who), used_);
        return std::min({room.of_subject, room.of_tenant, room.of_all});
    }

    [[nodiscard]] uint64_t used() const noexcept { return used_; }
    [[nodiscard]] uint64_t used(const Who& who) const { return of(subjects_, key_of(who)); }
    [[nodiscard]] uint64_t used_by_tenant(const Tenant& tenant) const {
        return of(tenants_, tenant);
    }
    [[nodiscard]] const Bounds& bounds() const noexcept { return bounds_; }

  private:
    struct Room {
        uint64_t of_subject, of_tenant, of_all;
    };
    [[nodiscard]] Who key_of(const Who& who) const {
        return {.tenant = bounds_.subjects_share ? who.tenant : Tenant(), .subject = who.subject};
    }
    [[nodiscard]] std::expected<void, Limit> check(uint64_t of_tenant, uint64_t of_subject,
                                                   uint64_t amount, uint64_t used) const {
        const Room room = room_for(of_tenant, of_subject, used);
        if (amount > room.of_subject) return std::unexpected(Limit::subject);
        if (amount > room.of_tenant) return std::unexpected(Limit::tenant);
        if (amount > room.of_all) return std::unexpected(Limit::all);
        return {};
    }
    [[nodiscard]] Room room_for(uint64_t of_tenant, uint64_t of_subject, uint64_t used) const {
        const uint64_t free = left(bounds_.in_all, used), sure = left(bounds_.sure, of_tenant);
        Room room{left(bounds_.per_subject, of_subject), left(bounds_.per_tenant, of_tenant),
                  std::max(free, sure)};
        const uint64_t has = std::max(of_tenant, of_subject);  // a subject of several tenants
        const uint64_t of_others = left(std::min(bounds_.per_tenant, free), has);
        if (has > 0) room.of_tenant = std::min(room.of_tenant, std::max(of_others, sure));
        if (of_subject > 0 && bounds_.subjects_share) {
            room.of_subject =
                std::min(room.of_subject, std::max(left(of_others, of_subject), sure));
        }
        return room;
    }
    static constexpr uint64_t left(uint64_t most, uint64_t has) noexcept {
        return most > has ? most - has : 0;
    }
    static uint64_t of(const auto& counts, const auto& key) {
        const auto found = counts.find(key);
        return found == counts.end() ? 0 : found->second.used;
    }

    const Bounds bounds_;
    uint64_t used_ = 0;
    Tenants tenants_;
    Subjects subjects_;
};

using Quota = QuotaOf<>;

}  // namespace ros2s
