// HastyPool: a client's access to the simulated cluster without one rule of the protocol of
// docs/formats/rados.md. Campaigns on it must fail.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::sim {

enum class RadosRule : uint8_t {
    data_first,     // data is written before a change publishes it
    prepare_first,  // all objects are locked before the commit
    commit_first,   // the commit is done before objects are unlocked and the caller is answered
    expect_head,    // a change is conditional on what was read
    doubt_refusal,  // a change that was refused, or not answered, may have been made
};
inline constexpr std::array<std::pair<std::string_view, RadosRule>, 5> rados_rules{{
    {"data-first", RadosRule::data_first},
    {"prepare-first", RadosRule::prepare_first},
    {"commit-first", RadosRule::commit_first},
    {"expect-head", RadosRule::expect_head},
    {"doubt-refusal", RadosRule::doubt_refusal},
}};

class HastyPool final : public rados::Pool {
  public:
    // No rule is missing: it passes everything on.
    HastyPool(rados::Pool& pool, Reactor& reactor, std::optional<RadosRule> missing)
        : pool_(pool), reactor_(reactor), missing_(missing), later_(reactor, later_max) {}
    // Waits for what was answered too early.
    Task<> close() { co_await later_.join(); }

    [[nodiscard]] std::string name() const override { return pool_.name(); }
    [[nodiscard]] std::string description() const override { return pool_.description(); }
    Task<Result<>> apply(const rados::Change& change) override;
    Task<Result<rados::ReadReply>> read(const rados::Read& read) override {
        return pool_.read(read);
    }
    Task<Result<uint64_t>> read_data(const rados::ObjectName& object, uint64_t offset,
                                     Bytes into) override {
        return pool_.read_data(object, offset, into);
    }
    [[nodiscard]] std::unique_ptr<rados::Listing> list(std::string space) override {
        return pool_.list(std::move(space));
    }
    Task<Result<object::PoolSpace>> space() override { return pool_.space(); }

  private:
    static constexpr size_t later_max = 1024;
    [[nodiscard]] bool is_answered_early(const rados::Change& change) const;
    Task<> apply_later(rados::Change change, std::string data);

    rados::Pool& pool_;
    Reactor& reactor_;
    const std::optional<RadosRule> missing_;
    Nursery later_;
};

}  // namespace ros2s::sim
