#include "ros2s/fs/container.h"

#include <fmt/format.h>

#include "block_files.h"
#include "dfs_mount.h"
#include "free_wait.h"
#include "ros2s/object/blocks.h"
#include "ros2s/object/lease_wait.h"
#include "superblock.h"

namespace ros2s::fs {

Task<Result<object::ContainerRecord>> find_container(const Call& call, object::ObjectStore& store,
                                                     std::string where, std::string label,
                                                     Report& report) {
    auto listed = co_await store.list_containers(call);
    if (!listed) {
        co_return report.fail(listed.error(), "cannot list the containers of {}: {}", where,
                              describe(listed.error()));
    }
    std::string others;
    for (auto& record : *listed) {
        if (record.properties.label == label) co_return std::move(record);
        others += (others.empty() ? "" : ", ") + record.properties.label;
    }
    // A server lists only what its client may use, and a delegated DPU only what it has been
    // handed.
    co_return report.fail(Code::not_found, "{} has no container '{}' that this client may use{}",
                          where, label,
                          others.empty() ? ". Check the name, and the client's rights at the server"
                                         : "; it may use: " + others);
}

Task<Result<std::unique_ptr<FileSystem>>> open_container(const Call& call, Reactor& reactor,
                                                         object::ObjectStore& store,
                                                         std::string where, std::string label,
                                                         DfsOptions options, Report& report) {
    options.shown = fmt::format("the container '{}' of {}{}{}", label, where,
                                options.mounted_as.empty() ? "" : ", ", options.mounted_as);
    ROS2S_CO_TRY_ASSIGN(const auto record, co_await find_container(call, store, std::move(where),
                                                                   std::move(label), report));
    object::ObjectStore* top = &store;
    if (options.layers != nullptr) {
        ROS2S_CO_TRY_ASSIGN(auto layer, co_await options.layers->find(call, reactor, store, record,
                                                                      options.shown, report));
        if (layer.store != nullptr) {
            top = layer.store.get();
            options.layer = std::move(layer.store);
            options.operations_max = layer.operations_max;
            options.transaction_bytes_max = layer.transaction_bytes_max;
        }
    }
    Report refusal;
    auto mounted = co_await Dfs::mount(call, *top, record.id, reactor, options, refusal);
    if (mounted) co_return std::unique_ptr<FileSystem>(std::move(*mounted));
    const Error& error = mounted.error();
    if (error.code == Code::bad_version && error.detail == Superblock::is_cache) {
        if (!options.exclusive_as.empty()) {
            co_return report.fail(
                Code::unsupported,
                "{} cannot be mounted with `exclusive`: it is a cache, from which "
                "the engine removes blocks. Leave that out",
                options.shown);
        }
        co_return co_await BlockFiles::open(call, *top, record.id, reactor, std::move(options));
    }
    co_return report.fail(error, "{}", refusal.text());
}

namespace {

constexpr Duration undoing_max = std::chrono::seconds(10);

std::string why_not_created(const object::ContainerProperties& properties, const Error& error) {
    if (error.code == Code::exists)
        return "the name is in use: use that container, or choose another name";
    if (error.code == Code::too_large && error.detail < object::containers_max) {
        return fmt::format(
            "its owner has {} containers, and one owner has no more than are free in the pool: "
            "destroy some of them, or ask an administrator of the engine to create it",
            error.detail);
    }
    if (error.code == Code::too_large) {
        return fmt::format(
            "the pool has {} containers, which is the limit: destroy one that is not needed",
            error.detail);
    }
    if (error.code != Code::invalid) return describe(error);
    if (!object::is_valid_label(properties.label)) return "a name is 1 to 127 of A-Z a-z 0-9 . _ -";
    return fmt::format("a chunk of {} bytes is not a multiple of {}; give one, up to {}",
                       properties.chunk_bytes, block_bytes, object::transaction_bytes_max);
}

}  // namespace

Task<Result<object::ContainerRecord>> create_container(const Call& call, Reactor& reactor,
                                                       object::ObjectStore& store,
                                                       object::ContainerProperties properties,
                                                       Owner owner, Report& report,
                                                       const object::Operation* keys) {
    auto created = co_await store.create_container(call, properties);
    if (!created) {
        co_return report.fail(created.error(), "cannot create the container '{}': {}",
                              properties.label, why_not_created(properties, created.error()));
    }
    Report refusal;
    const auto formatted =
        co_await Dfs::format(call, store, created->id, reactor, owner, refusal, keys);
    const bool repeated = call.repeated;
    if (formatted || (repeated && formatted.error().code == Code::exists)) {
        co_return std::move(*created);
    }
    report.say(refusal.text());
    // The repetition finishes it, and may be running already.
    const bool may_be_repeated = call.update != nullptr && !call.check(reactor);
    if (may_be_repeated) co_return fail(formatted.error());
    // Otherwise a container would remain that cannot be opened. This is another update than the one
    // that the call names, and is done also if the call was stopped.
    Call undoing = call;
    undoing.update = nullptr;
    undoing.repeated = false;
    undoing.stop = {};
    undoing.deadline = reactor.now() + undoing_max;
    const auto undone = co_await store.destroy_container(undoing, created->id);
    if (!undone) {
        report.say(
            "the container '{}' was created and cannot be opened; remove it: ros2store container "
            "destroy",
            created->properties.label);
    }
    co_return fail(formatted.error());
}

std::string_view to_string(Durability durability) {
    return durability == Durability::fsync ? "fsync" : "durable";
}

Result<Durability> parse_durability(std::string_view text, Report& report) {
    if (text == "durable") return Durability::durable;
    if (text == "fsync") return Durability::fsync;
    return report.fail(Code::invalid, "there is no durability '{}': give durable or fsync", text);
}

Task<Result<Durability>> durability_of(const Call& call, object::ObjectStore& store,
                                       object::ContainerId container) {
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await find_superblock(call, store, container));
    const bool at_fsync = (found.record.features_needed & Superblock::durable_on_fsync) != 0;
    co_return at_fsync ? Durability::fsync : Durability::durable;
}

Task<Result<>> set_durability(const Call& call, Reactor& reactor, object::ObjectStore& store,
                              const object::ContainerRecord& record, Durability durability,
                              Report& report) {
    constexpr int attempts_max = 20;
    Result<> done = fail(Code::busy);
    for (int i = 0; i < attempts_max; ++i) {
        const auto find = [&] { return find_superblock(call, store, record.id); };
        auto found = co_await when_free(call, reactor, find);
        done = found ? Result<>() : fail(found.error());
        if (!done) break;
        uint32_t& features = found->record.features_needed;
        features &= ~Superblock::durable_on_fsync;
        if (durability == Durability::fsync) features |= Superblock::durable_on_fsync;
        const object::Transaction transaction = replace_superblock(*found);
        const auto put =
            co_await object::await_leases(store, reactor, call, record.id, transaction,
                                          co_await store.update(call, record.id, transaction));
        done = put ? Result<>() : fail(put.error());
        if (done || done.error().code != Code::condition_failed) break;
    }
    if (done) co_return done;
    if (done.error().code == Code::busy) {
        co_return report.fail(
            Code::busy, "{}",
            co_await DfsMount::who_has(call, store, record.id, record.properties.label));
    }
    co_return report.fail(done.error(), "the durability of the container '{}' cannot be set: {}",
                          record.properties.label, describe(done.error()));
}

Task<Result<>> require_decryption(const Call& call, object::ObjectStore& store,
                                  const object::ContainerRecord& record, object::Operation also,
                                  Report& report) {
    const std::string shown = fmt::format("the container '{}'", record.properties.label);
    const auto cannot = [&](const Error& error) {
        return report.fail(error, "{} cannot be encrypted: {}", shown, describe(error));
    };
    auto found = co_await find_superblock(call, store, record.id);
    if (!found) co_return cannot(found.error());
    Superblock& superblock = found->record;
    if ((superblock.features_needed & Superblock::needs_decryption) != 0) {
        co_return report.fail(Code::exists, "{} is encrypted already", shown);
    }
    if (superblock.chunk_bytes > encrypted_chunk_bytes_max) {
        co_return report.fail(
            Code::too_large, "{} has chunks of {} bytes; an encrypted one has chunks of at most {}",
            shown, superblock.chunk_bytes, encrypted_chunk_bytes_max);
    }
    superblock.features_needed |= Superblock::needs_decryption;
    object::Transaction transaction = replace_superblock(*found);
    transaction.conditions.push_back({.kind = object::Condition::Kind::no_dkeys,
                                      .object = object_of(root_node),
                                      .akey = entry_akey()});
    transaction.operations.push_back(std::move(also));
    const auto done = co_await store.update(call, record.id, transaction);
    if (done) co_return Result<>();
    if (done.error().code != Code::condition_failed) co_return cannot(done.error());
    co_return report.fail(Code::not_empty, "{} has files already: encrypt an empty one", shown);
}

Task<Result<>> make_cache(const Call& call, object::ObjectStore& store,
                          const object::ContainerRecord& record, Duration ttl, Report& report) {
    const std::string& label = record.properties.label;
    if (record.properties.caps.bytes == 0) {
        co_return report.fail(Code::invalid, "the cache '{}' needs a budget: give --space", label);
    }
    auto found = co_await find_superblock(call, store, record.id);
    Result<> done = found ? Result<>() : fail(found.error());
    if (done) {
        found->record.features_needed |= Superblock::is_cache;
        const object::CacheRecord cache{.ttl_ns = static_cast<uint64_t>(ttl.count())};
        object::Transaction transaction = replace_superblock(*found);
        transaction.conditions.push_back({.kind = object::Condition::Kind::no_dkeys,
                                          .object = object_of(root_node),
                                          .akey = entry_akey()});
        transaction.operations.push_back({.kind = object::Operation::Kind::put,
                                          .object = object::blocks_object,
                                          .dkey = object::cache_dkey(),
                                          .akey = object::cache_akey(),
                                          .window = object::Window::local(object_bytes(cache))});
        const auto put = co_await store.update(call, record.id, transaction);
        if (!put) done = fail(put.error());
    }
    if (done) co_return done;
    co_return report.fail(
        done.error(), "the container '{}' cannot be made a cache: {}", label,
        done.error().code == Code::condition_failed ? "it has files" : describe(done.error()));
}

Task<Result<std::optional<CacheState>>> cache_of(const Call& call, object::ObjectStore& store,
                                                 object::ContainerId container) {
    CacheState state;
    object::CacheRecord record;
    FetchItem items[] = {
        record_item(object::blocks_object, object::cache_dkey(), object::cache_akey(), record),
        record_item(object::blocks_object, object::cache_dkey(), object::cache_use_akey(),
                    state.use)};
    ROS2S_CO_TRY(co_await store.fetch(call, container, items));
    if (!items[0].status && items[0].status.error().code == Code::not_found) co_return std::nullopt;
    ROS2S_CO_TRY(items[0].status);
    ROS2S_CO_TRY(items[1].status);
    state.ttl = Duration(static_cast<int64_t>(record.ttl_ns));
    co_return state;
}

}  // namespace ros2s::fs
