#include "containers.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "ros2s/object/validate.h"
#include "ros2s/rados/records.h"

namespace ros2s::rados {
namespace {

using namespace object;

constexpr const char* pool_space = "ros2store";
constexpr const char* pool_object = "pool";
constexpr const char* format_key = "format";
constexpr const char* clock_key = "clock";

std::string label_key(const std::string& label) { return "l" + label; }
std::string destroying_key(ContainerId container) { return "x" + space_of(container); }

std::string value_of(const ContainerRecord& record) {
    return encode(ContainerValue{.id = record.id.uuid,
                                 .chunk_bytes = record.properties.chunk_bytes,
                                 .created = record.created,
                                 .owner = record.properties.owner});
}
Result<ContainerRecord> record_of(const std::string& key, const std::string& value) {
    ContainerValue found;
    ROS2S_TRY(decode(value, found));
    return ContainerRecord{.id = {found.id},
                           .properties = {.label = key.substr(1),
                                          .chunk_bytes = found.chunk_bytes,
                                          .owner = found.owner},
                           .created = found.created};
}

}  // namespace

// ---- the pool ------------------------------------------------------------------------------

Task<Result<>> Containers::open(const Call& call, Report& report) {
    ROS2S_CO_TRY(call.check(env_.reactor));
    const Read read{.object = {pool_space, pool_object}, .keys = {format_key, clock_key}};
    const auto found = co_await env_.metadata.read(read);
    if (!found && found.error().code != Code::not_found) {
        co_return report.fail(found.error(), "cannot read {}: {}", env_.metadata.description(),
                              describe(found.error()));
    }
    if (found && found->values.contains(format_key)) {
        PoolRecord record;
        const auto known = decode(found->values.at(format_key), record);
        if (!known) {
            co_return report.fail(known.error(),
                                  "{} has a format that this version of ros2store does not know "
                                  "({}); use the version that wrote it",
                                  env_.metadata.description(), describe(known.error()));
        }
        if (record.data != env_.data.name()) {
            co_return report.fail(Code::invalid,
                                  "the data of {} is in pool '{}', and '{}' was named for it: name "
                                  "that one (data={})",
                                  env_.metadata.description(), record.data, env_.data.name(),
                                  record.data);
        }
        ClockRecord clock;
        const auto last = found->values.find(clock_key);
        if (last != found->values.end() && decode(last->second, clock)) epochs_.pass(clock.epoch);
        if (const auto finished = co_await finish_destroying(); !finished) {
            co_return report.fail(finished.error(),
                                  "cannot finish the removal of a container of {}: {}",
                                  env_.metadata.description(), describe(finished.error()));
        }
        co_return Result<>{};
    }
    ROS2S_CO_TRY(co_await check_no_strangers(report));
    if (!env_.options.formats) {
        co_return report.fail(
            Code::not_found, "{} is empty: make a container in it (ros2store container create URI)",
            env_.metadata.description());
    }
    ROS2S_CO_TRY(co_await format(report));
    // Another client may have been faster, with other data.
    co_return co_await open(call, report);
}

Task<Result<>> Containers::format(Report& report) {
    const PoolRecord record{.id = Uuid::make(env_.reactor.secrets()), .data = env_.data.name()};
    const Change create{.object = {pool_space, pool_object},
                        .expect = Change::Expect::absent,
                        .set = {{format_key, encode(record)}}};
    const auto created = co_await env_.metadata.apply(create);
    if (created || created.error().code == Code::condition_failed) co_return Result<>{};
    const bool no_omap = created.error().code == Code::unsupported;
    co_return report.fail(
        created.error(),
        no_omap ? fmt::format("{} cannot store metadata: pools of erasure codes have no omap. "
                              "Name a replicated pool for metadata",
                              env_.metadata.description())
                : fmt::format("cannot write to {}: {}", env_.metadata.description(),
                              describe(created.error())));
}

Task<Result<>> Containers::check_no_strangers(Report& report) {
    for (Pool* const pool : {&env_.metadata, &env_.data}) {
        const auto listing = pool->list(std::string(all_spaces));
        const auto names = co_await listing->next();
        if (!names) {
            co_return report.fail(names.error(), "cannot list {}: {}", pool->description(),
                                  describe(names.error()));
        }
        if (names->empty()) continue;
        co_return report.fail(Code::exists,
                              "{} has objects that are not ros2store's (one is '{}'): name an "
                              "empty pool (ceph osd pool create NAME)",
                              pool->description(), names->front());
    }
    co_return Result<>{};
}

Task<Result<std::map<std::string, std::string>>> Containers::read_all(std::string prefix) {
    std::map<std::string, std::string> all;
    Read read = first_page({pool_space, pool_object}, prefix);
    while (true) {
        ROS2S_CO_TRY_ASSIGN(ReadReply page, co_await env_.metadata.read(read));
        all.merge(page.values);
        if (!turn_page(read, page)) co_return all;
    }
}

Task<Result<>> Containers::remove_all(Pool& pool, std::string space) {
    const auto listing = pool.list(space);
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const auto names, co_await listing->next());
        if (names.empty()) co_return Result<>{};
        for (const std::string& name : names) {
            const Change remove{.object = {space, name}, .remove_object = true};
            ROS2S_CO_TRY(ignore_absence(co_await pool.apply(remove)));
        }
    }
}

Task<Result<>> Containers::finish_destroying() {
    ROS2S_CO_TRY_ASSIGN(const auto all, co_await read_all("x"));
    for (const std::string& key : all | std::views::keys) {
        const std::string space = key.substr(1);
        ROS2S_CO_TRY(co_await remove_all(env_.data, space));
        if (&env_.data != &env_.metadata) ROS2S_CO_TRY(co_await remove_all(env_.metadata, space));
        const Change done{.object = {pool_space, pool_object}, .remove = {key}};
        ROS2S_CO_TRY(co_await env_.metadata.apply(done));
    }
    co_return Result<>{};
}

Task<> Containers::close() {
    if (epochs_.last() == 0) co_return;
    const Read read{.object = {pool_space, pool_object}, .keys = {clock_key}};
    const auto found = co_await env_.metadata.read(read);
    if (!found) co_return;
    const std::string before = found->value(clock_key);
    ClockRecord clock;
    if (!before.empty() && decode(before, clock) && clock.epoch >= epochs_.last()) co_return;
    // If another store has written it meanwhile, its clock is as good.
    const Change note{.object = {pool_space, pool_object},
                      .equal = {{clock_key, before}},
                      .set = {{clock_key, encode(ClockRecord{.epoch = epochs_.last()})}}};
    (void)co_await env_.metadata.apply(note);
}

// ---- containers ----------------------------------------------------------------------------

Task<Result<std::vector<ContainerRecord>>> Containers::list(const Call& call) {
    ROS2S_CO_TRY(call.check(env_.reactor));
    const Time asked = env_.reactor.now();
    std::vector<ContainerRecord> records;
    ROS2S_CO_TRY_ASSIGN(const auto all, co_await read_all("l"));
    for (const auto& [key, value] : all) {
        ROS2S_CO_TRY_ASSIGN(records.emplace_back(), record_of(key, value));
    }
    seen_.clear();
    for (const ContainerRecord& record : records) seen_[record.id] = asked;
    co_return records;
}

Task<Result<>> Containers::check(const Call& call, ContainerId container) {
    const auto known = seen_.find(container);
    if (known != seen_.end() && env_.reactor.now() - known->second < env_.options.container_check) {
        co_return Result<>{};
    }
    ROS2S_CO_TRY(co_await list(call));
    co_return seen_.contains(container) ? Result<>() : fail(Code::not_found);
}

Task<Result<ContainerRecord>> Containers::create(const Call& call,
                                                 const ContainerProperties& properties) {
    ROS2S_CO_TRY(validate(properties));
    if (properties.caps != Amount{}) co_return fail(Code::unsupported);
    ROS2S_CO_TRY_ASSIGN(const auto all, co_await list(call));
    const auto owned = std::ranges::count_if(all, [&](const ContainerRecord& each) {
        return each.properties.owner == properties.owner;
    });
    ROS2S_CO_TRY(check_room(all.size(), properties.owner, static_cast<uint64_t>(owned)));
    const ContainerRecord record{.id = {Uuid::make(env_.reactor.secrets())},
                                 .properties = properties,
                                 .created = env_.reactor.wall_time()};
    const std::string key = label_key(properties.label);
    const Change create{.object = {pool_space, pool_object},
                        .equal = {{key, ""}},
                        .set = {{key, value_of(record)}}};
    const auto created = co_await env_.metadata.apply(create);
    if (!created) {
        co_return fail(created.error().code == Code::condition_failed ? Error{Code::exists}
                                                                      : created.error());
    }
    seen_[record.id] = env_.reactor.now();
    co_return record;
}

Task<Result<>> Containers::destroy(const Call& call, ContainerId container) {
    ROS2S_CO_TRY_ASSIGN(const auto all, co_await list(call));
    const auto found = std::ranges::find(all, container, &ContainerRecord::id);
    if (found == all.end()) co_return fail(Code::not_found);
    const std::string key = label_key(found->properties.label);
    const Change destroy{.object = {pool_space, pool_object},
                         .equal = {{key, value_of(*found)}},
                         .set = {{destroying_key(container), "1"}},
                         .remove = {key}};
    seen_.erase(container);
    if (const auto destroyed = co_await env_.metadata.apply(destroy); !destroyed) {
        co_return fail(destroyed.error().code == Code::condition_failed ? Error{Code::not_found}
                                                                        : destroyed.error());
    }
    co_return co_await finish_destroying();
}

}  // namespace ros2s::rados
