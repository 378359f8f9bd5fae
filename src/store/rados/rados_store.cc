#include "rados_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/object/chain.h"
#include "ros2s/object/validate.h"

namespace ros2s::rados {
namespace {

using namespace object;

constexpr size_t tidying_max = 64, applying_max = 64;
constexpr const char* pool_space = "ros2store";
constexpr const char* pool_object = "pool";
constexpr const char* format_key = "format";
constexpr const char* clock_key = "clock";

std::string label_key(const std::string& label) { return "l" + label; }
std::string destroying_key(ContainerId container) { return "x" + space_of(container); }

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

RadosStore::RadosStore(Reactor& reactor, Pool& metadata, Pool& data, RadosOptions options)
    : reactor_(reactor),
      metadata_(metadata),
      data_(data),
      options_(std::move(options)),
      number_(reactor.secrets().next() | 1),
      mutexes_(reactor),
      coordinator_(reactor, metadata, options_.patience),
      read_turns_(reactor),
      sweeping_(reactor, 1),
      storing_(reactor, 1),
      applying_(reactor, applying_max),
      tidying_(reactor, tidying_max) {}
RadosStore::~RadosStore() = default;

Task<Result<std::unique_ptr<RadosStore>>> RadosStore::open(const Call& call, Reactor& reactor,
                                                           Pool& metadata, Pool& data,
                                                           RadosOptions options, Report& report) {
    std::unique_ptr<RadosStore> store(new RadosStore(reactor, metadata, data, std::move(options)));
    ROS2S_CO_TRY(co_await store->open_pool(call, report));
    if (store->options_.sweep_every > Duration()) {
        ROS2S_CHECK(store->sweeping_.try_spawn(store->keep_sweeping()));
    }
    co_return std::move(store);
}

Task<> RadosStore::close() {
    closing_.request_stop();
    co_await sweeping_.join();
    co_await storing_.join();
    co_await applying_.join();
    for (auto& [name, keys] : std::exchange(ended_decisions_, {})) {
        co_await tidying_.spawn(forget_keys(name, std::move(keys)));
    }
    co_await tidying_.join();
    if (last_epoch_ == 0) co_return;
    const Read read{.object = {pool_space, pool_object}, .keys = {clock_key}};
    const auto found = co_await metadata_.read(read);
    if (!found) co_return;
    const auto value = found->values.find(clock_key);
    const std::string before = value == found->values.end() ? "" : value->second;
    ClockRecord clock;
    if (!before.empty() && decode(before, clock) && clock.epoch >= last_epoch_) co_return;
    // If another store has written it meanwhile, its clock is as good.
    const Change note{.object = {pool_space, pool_object},
                      .equal = {{clock_key, before}},
                      .set = {{clock_key, encode(ClockRecord{.epoch = last_epoch_})}}};
    (void)co_await metadata_.apply(note);
}

Features RadosStore::features() const {
    return {.multi_object_transactions = true,
            .conditions = true,
            .stored_replies = options_.keeps_replies,
            .checksums = true,
            .durable = true,
            .chains = true,
            .own_epochs = true,
            .own_pins = true,
            .late_space = true};
}

// ---- the pool ------------------------------------------------------------------------------

Task<Result<>> RadosStore::open_pool(const Call& call, Report& report) {
    ROS2S_CO_TRY(call.check(reactor_));
    const Read read{.object = {pool_space, pool_object}, .keys = {format_key, clock_key}};
    const auto found = co_await metadata_.read(read);
    if (!found && found.error().code != Code::not_found) {
        co_return report.fail(found.error(), "cannot read {}: {}", metadata_.description(),
                              describe(found.error()));
    }
    if (found && found->values.contains(format_key)) {
        PoolRecord record;
        const auto known = decode(found->values.at(format_key), record);
        if (!known) {
            co_return report.fail(known.error(),
                                  "{} has a format that this version of ros2store does not know "
                                  "({}); use the version that wrote it",
                                  metadata_.description(), describe(known.error()));
        }
        if (record.data != data_.name()) {
            co_return report.fail(Code::invalid,
                                  "the data of {} is in pool '{}', and '{}' was named for it: name "
                                  "that one (data={})",
                                  metadata_.description(), record.data, data_.name(), record.data);
        }
        ClockRecord clock;
        const auto last = found->values.find(clock_key);
        if (last != found->values.end() && decode(last->second, clock)) last_epoch_ = clock.epoch;
        if (const auto finished = co_await finish_destroying(); !finished) {
            co_return report.fail(finished.error(),
                                  "cannot finish the removal of a container of {}: {}",
                                  metadata_.description(), describe(finished.error()));
        }
        co_return Result<>{};
    }
    ROS2S_CO_TRY(co_await check_no_strangers(report));
    if (!options_.formats) {
        co_return report.fail(
            Code::not_found, "{} is empty: make a container in it (ros2store container create URI)",
            metadata_.description());
    }
    ROS2S_CO_TRY(co_await format(report));
    // Another client may have been faster, with other data.
    co_return co_await open_pool(call, report);
}

Task<Result<>> RadosStore::format(Report& report) {
    const PoolRecord record{.id = Uuid::make(reactor_.secrets()), .data = data_.name()};
    const Change create{.object = {pool_space, pool_object},
                        .expect = Change::Expect::absent,
                        .set = {{format_key, encode(record)}}};
    const auto created = co_await metadata_.apply(create);
    if (created || created.error().code == Code::condition_failed) co_return Result<>{};
    const bool no_omap = created.error().code == Code::unsupported;
    co_return report.fail(
        created.error(),
        no_omap ? fmt::format("{} cannot store metadata: pools of erasure codes have no omap. "
                              "Name a replicated pool for metadata",
                              metadata_.description())
                : fmt::format("cannot write to {}: {}", metadata_.description(),
                              describe(created.error())));
}

Task<Result<>> RadosStore::check_no_strangers(Report& report) {
    for (Pool* const pool : {&metadata_, &data_}) {
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

Task<Result<>> RadosStore::remove_all(Pool& pool, std::string space) {
    const auto listing = pool.list(space);
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const auto names, co_await listing->next());
        if (names.empty()) co_return Result<>{};
        for (const std::string& name : names) {
            const Change remove{.object = {space, name}, .remove_object = true};
            const auto removed = co_await pool.apply(remove);
            if (!removed && removed.error().code != Code::not_found) co_return removed;
        }
    }
}

Task<Result<>> RadosStore::finish_destroying() {
    Read read = first_page({pool_space, pool_object}, "x");
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const ReadReply reply, co_await metadata_.read(read));
        for (const auto& [key, value] : reply.values) {
            const std::string space = key.substr(1);
            ROS2S_CO_TRY(co_await remove_all(data_, space));
            if (&data_ != &metadata_) ROS2S_CO_TRY(co_await remove_all(metadata_, space));
            const Change done{.object = {pool_space, pool_object}, .remove = {key}};
            ROS2S_CO_TRY(co_await metadata_.apply(done));
        }
        if (!turn_page(read, reply)) co_return Result<>{};
    }
}

// ---- containers ----------------------------------------------------------------------------

Task<Result<std::vector<ContainerRecord>>> RadosStore::list_containers(const Call& call) {
    ROS2S_CO_TRY(call.check(reactor_));
    const Time asked = reactor_.now();
    std::vector<ContainerRecord> records;
    Read read = first_page({pool_space, pool_object}, "l");
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const ReadReply reply, co_await metadata_.read(read));
        for (const auto& [key, value] : reply.values) {
            ROS2S_CO_TRY_ASSIGN(auto record, record_of(key, value));
            records.push_back(std::move(record));
        }
        if (!turn_page(read, reply)) break;
    }
    containers_.clear();
    for (const ContainerRecord& record : records) containers_[record.id] = asked;
    co_return records;
}

Task<Result<>> RadosStore::check_container(const Call& call, ContainerId container) {
    const auto known = containers_.find(container);
    if (known != containers_.end() && reactor_.now() - known->second < options_.container_check) {
        co_return Result<>{};
    }
    ROS2S_CO_TRY(co_await list_containers(call));
    co_return containers_.contains(container) ? Result<>() : fail(Code::not_found);
}

Task<Result<ContainerRecord>> RadosStore::create_container(const Call& call,
                                                           const ContainerProperties& properties) {
    ROS2S_CO_TRY(validate(properties));
    if (properties.caps != Amount{}) co_return fail(Code::unsupported);
    ROS2S_CO_TRY_ASSIGN(const auto all, co_await list_containers(call));
    const auto owned = std::ranges::count_if(all, [&](const ContainerRecord& each) {
        return each.properties.owner == properties.owner;
    });
    ROS2S_CO_TRY(check_room(all.size(), properties.owner, static_cast<uint64_t>(owned)));
    const ContainerRecord record{.id = {Uuid::make(reactor_.secrets())},
                                 .properties = properties,
                                 .created = reactor_.wall_time()};
    const std::string key = label_key(properties.label);
    const Change create{.object = {pool_space, pool_object},
                        .equal = {{key, ""}},
                        .set = {{key, encode(ContainerValue{.id = record.id.uuid,
                                                            .chunk_bytes = properties.chunk_bytes,
                                                            .created = record.created,
                                                            .owner = properties.owner})}}};
    const auto created = co_await metadata_.apply(create);
    if (!created) {
        co_return fail(created.error().code == Code::condition_failed ? Error{Code::exists}
                                                                      : created.error());
    }
    containers_[record.id] = reactor_.now();
    co_return record;
}

Task<Result<>> RadosStore::destroy_container(const Call& call, ContainerId container) {
    ROS2S_CO_TRY_ASSIGN(const auto all, co_await list_containers(call));
    const auto found = std::ranges::find(all, container, &ContainerRecord::id);
    if (found == all.end()) co_return fail(Code::not_found);
    const std::string key = label_key(found->properties.label);
    const std::string value = encode(ContainerValue{.id = container.uuid,
                                                    .chunk_bytes = found->properties.chunk_bytes,
                                                    .created = found->created,
                                                    .owner = found->properties.owner});
    const Change destroy{.object = {pool_space, pool_object},
                         .equal = {{key, value}},
                         .set = {{destroying_key(container), "1"}},
                         .remove = {key}};
    containers_.erase(container);
    if (const auto destroyed = co_await metadata_.apply(destroy); !destroyed) {
        co_return fail(destroyed.error().code == Code::condition_failed ? Error{Code::not_found}
                                                                        : destroyed.error());
    }
    co_return co_await finish_destroying();
}

Task<Result<PoolSpace>> RadosStore::space(const Call& call, ContainerId container) {
    ROS2S_CO_TRY(call.check(reactor_));
    if (container != ContainerId{}) ROS2S_CO_TRY(co_await check_container(call, container));
    co_return co_await data_.space();
}

// ---- pins ----------------------------------------------------------------------------------

Task<Result<>> RadosStore::pin(const Call& call, ContainerId container, const Holder& holder,
                               FetchItem& item) {
    // Transactions of this store that change the object hold the same mutex.
    const std::string space = space_of(container);
    const auto hold = co_await mutexes_.lock({space + object_name(item.object)});
    ROS2S_CO_TRY(co_await fetch(call, container, {&item, 1}));
    if (item.status) ROS2S_CO_TRY(pins_.add(container, item.object, holder));
    co_return Result<>();
}

Task<Result<bool>> RadosStore::unpin(const Call&, ContainerId container, const Holder& holder,
                                     ObjectId object) {
    co_return pins_.remove(container, object, holder);
}

void RadosStore::session_ended(uint64_t session) {
    const Time now = reactor_.now();
    pins_.session_ended(session, now, now);
}

}  // namespace ros2s::rados
