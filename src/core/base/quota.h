// Quota: a bound that clients share without trusting each other. It counts by tenant, and within a
// tenant by subject (a user of a machine, or a certificate).
//
// A tenant may have at most as much as it leaves free for all others, and a subject at most as much
// as it leaves to its tenant's others (base/shares.h). n tenants that take all they can have
// 1/(n + 1) each. In addition there are limits for one subject, for one tenant and for all.
//
// Owned by what has the bound. Threads: any, one at a time, which the owner ensures. It outlives
// its shares.
#pragma once
#include <algorithm>
#include <cstdint>
#include <expected>
#include <map>
#include <utility>

#include "ros2s/base/check.h"

namespace ros2s {

class Quota {
  public:
    struct Bounds {
        uint64_t per_subject = UINT64_MAX;
        uint64_t per_tenant = UINT64_MAX;
        uint64_t in_all = UINT64_MAX;
        // A tenant may always have this much, even if all others have taken `in_all`.
        uint64_t sure = 0;
    };
    struct Who {
        uint64_t tenant = 0;
        uint64_t subject = 0;  // of this tenant
        auto operator<=>(const Who&) const = default;
    };
    enum class Limit : uint8_t { subject, tenant, all };

    // A taken amount. Its end gives it back.
    class [[nodiscard]] Share {
      public:
        Share() = default;
        Share(Share&& other) noexcept
            : quota_(std::exchange(other.quota_, nullptr)),
              who_(other.who_),
              amount_(other.amount_) {}
        Share& operator=(Share&& other) noexcept {
            if (this == &other) return *this;
            end();
            quota_ = std::exchange(other.quota_, nullptr);
            who_ = other.who_;
            amount_ = other.amount_;
            return *this;
        }
        ~Share() { end(); }
        void end() noexcept {
            if (quota_ != nullptr) std::exchange(quota_, nullptr)->give_back(who_, amount_);
        }

      private:
        friend class Quota;
        Share(Quota& quota, Who who, uint64_t amount) noexcept
            : quota_(&quota), who_(who), amount_(amount) {}
        Quota* quota_ = nullptr;
        Who who_;
        uint64_t amount_ = 0;
    };

    explicit Quota(Bounds bounds) : bounds_(bounds) {}
    Quota(const Quota&) = delete;
    Quota& operator=(const Quota&) = delete;
    ~Quota() { ROS2S_CHECK(used_ == 0); }

    // Errors: the limit that refuses it.
    [[nodiscard]] std::expected<Share, Limit> take(Who who, uint64_t amount = 1) {
        if (const auto allowed = check(who, amount); !allowed) {
            return std::unexpected(allowed.error());
        }
        used_ += amount;
        tenants_[who.tenant] += amount;
        subjects_[who] += amount;
        return Share(*this, who, amount);
    }
    [[nodiscard]] std::expected<void, Limit> check(Who who, uint64_t amount = 1) const {
        const Room room = room_for(who);
        if (amount > room.of_subject) return std::unexpected(Limit::subject);
        if (amount > room.of_tenant) return std::unexpected(Limit::tenant);
        if (amount > room.of_all) return std::unexpected(Limit::all);
        return {};
    }
    // The most that take() would give now.
    [[nodiscard]] uint64_t room(Who who) const {
        const Room room = room_for(who);
        return std::min({room.of_subject, room.of_tenant, room.of_all});
    }

    [[nodiscard]] uint64_t used() const noexcept { return used_; }
    [[nodiscard]] uint64_t used(Who who) const { return of(subjects_, who); }
    [[nodiscard]] uint64_t used_by_tenant(uint64_t tenant) const { return of(tenants_, tenant); }
    [[nodiscard]] const Bounds& bounds() const noexcept { return bounds_; }

  private:
    struct Room {
        uint64_t of_subject, of_tenant, of_all;
    };
    Room room_for(Who who) const {
        const uint64_t of_subject = used(who), of_tenant = used_by_tenant(who.tenant);
        const uint64_t free = left(bounds_.in_all, used_), sure = left(bounds_.sure, of_tenant);
        Room room{left(bounds_.per_subject, of_subject), left(bounds_.per_tenant, of_tenant),
                  std::max(free, sure)};
        const uint64_t of_others = left(std::min(bounds_.per_tenant, free), of_tenant);
        if (of_tenant > 0) room.of_tenant = std::min(room.of_tenant, std::max(of_others, sure));
        if (of_subject > 0) {
            room.of_subject =
                std::min(room.of_subject, std::max(left(of_others, of_subject), sure));
        }
        return room;
    }
    static constexpr uint64_t left(uint64_t most, uint64_t has) noexcept {
        return most > has ? most - has : 0;
    }
    template <class Key>
    static uint64_t of(const std::map<Key, uint64_t>& counts, const Key& key) {
        const auto found = counts.find(key);
        return found == counts.end() ? 0 : found->second;
    }
    template <class Key>
    static void subtract(std::map<Key, uint64_t>& counts, const Key& key,
                         uint64_t amount) noexcept {
        const auto found = counts.find(key);
        if ((found->second -= amount) == 0) counts.erase(found);
    }
    void give_back(Who who, uint64_t amount) noexcept {
        used_ -= amount;
        subtract(tenants_, who.tenant, amount);
        subtract(subjects_, who, amount);
    }

    const Bounds bounds_;
    uint64_t used_ = 0;
    std::map<uint64_t, uint64_t> tenants_;
    std::map<Who, uint64_t> subjects_;
};

}  // namespace ros2s
