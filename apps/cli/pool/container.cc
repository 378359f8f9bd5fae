// container create, set, rekey, list, query, destroy: on a pool without an owner, or through a
// server that has it open.
#include <fmt/format.h>
#include <unistd.h>

#include "output/describe.h"
#include "pool_access.h"
#include "pool_location.h"
#include "ros2s/api/deployment.h"
#include "ros2s/api/server_address.h"
#include "ros2s/cipher/container_keys.h"
#include "ros2s/cipher/key_calls.h"
#include "ros2s/config/units.h"
#include "ros2s/fs/container.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/tenancy/tenant.h"

namespace ros2s::cli {
namespace {

// "none", "aes-256-gcm", or "unknown": the caller may not read the container's keys, a DPU keeps
// them from it, or they are damaged.
Task<std::string> encryption_of(CommandContext context, PoolAccess& pool,
                                const object::ContainerRecord& container) {
    auto* const store = (co_await pool.store()).value_or(nullptr);
    if (store == nullptr) co_return "unknown";
    Report unused;
    const auto keys = co_await cipher::find_keys(context.call, *store, container.id,
                                                 container.properties.label, unused);
    if (keys) co_return "aes-256-gcm";
    co_return keys.error().code == Code::not_found ? "none" : "unknown";
}

// "durable", "fsync", "none" (a cache), or "unknown": the caller may not read the container, or a
// DPU keeps it from them, which makes each change durable.
Task<std::string> durability_of(CommandContext context, PoolAccess& pool,
                                const object::ContainerRecord& container) {
    auto* const store = (co_await pool.store()).value_or(nullptr);
    if (store == nullptr) co_return "unknown";
    const auto found = co_await fs::durability_of(context.call, *store, container.id);
    co_return std::string(found ? fs::to_string(*found) : "unknown");
}

// What the container's file system says about itself. The durability of a cache is "none".
struct Properties {
    std::string encryption, durability;
    std::optional<fs::CacheState> cache{};
};
Task<Properties> properties_of(CommandContext context, PoolAccess& pool,
                               const object::ContainerRecord& container) {
    Properties found{.encryption = co_await encryption_of(context, pool, container)};
    found.durability = co_await durability_of(context, pool, container);
    auto* const store = (co_await pool.store()).value_or(nullptr);
    if (store == nullptr) co_return found;
    const auto cache = co_await fs::cache_of(context.call, *store, container.id);
    found.cache = cache.value_or(std::nullopt);
    if (found.cache) found.durability = "none";
    co_return found;
}

Json cache_value(const std::optional<fs::CacheState>& cache) {
    if (!cache) return {};
    const object::CacheUse& use = cache->use;
    return Json::object({{"ttl_ns", cache->ttl.count()},
                         {"blocks", use.blocks},
                         {"pinned", use.pinned},
                         {"hits", use.hits},
                         {"misses", use.misses},
                         {"puts", use.puts},
                         {"evicted", use.evicted},
                         {"evicted_age_ns", use.evicted_age().count()},
                         {"expired", use.expired},
                         {"removed", use.removed}});
}

// "1200 blocks, 5 pinned; 90 hits and 10 misses, 1500 puts, 300 evicted, …".
std::string cache_text(const fs::CacheState& cache) {
    const object::CacheUse& use = cache.use;
    return fmt::format(
        "{} blocks, {} pinned{}; since the pool was opened {} hits, {} misses, {} puts, {} "
        "evicted{}, {} expired, {} removed",
        use.blocks, use.pinned,
        cache.ttl > Duration{} ? ", for " + config::format_duration(cache.ttl) : "", use.hits,
        use.misses, use.puts, use.evicted,
        use.evicted > 0 ? " at an age of " + config::format_duration(use.evicted_age()) : "",
        use.expired, use.removed);
}

Json value_of(const object::ContainerRecord& container, const std::string& uri,
              const Properties& properties) {
    return Json::object({{"container", container.properties.label},
                         {"uri", uri},
                         {"id", container.id.uuid.to_string()},
                         {"chunk_bytes", container.properties.chunk_bytes},
                         {"encryption", properties.encryption},
                         {"durability", properties.durability},
                         {"cache", cache_value(properties.cache)},
                         {"owner", container.properties.owner},
                         {"used_bytes", container.used.bytes},
                         {"used_values", container.used.values},
                         {"cap_bytes", container.properties.caps.bytes},
                         {"cap_values", container.properties.caps.values},
                         {"created_ns", container.created.time_since_epoch().count()}});
}

std::string text_of(const Properties& properties) {
    return (properties.encryption == "none" ? "plain" : properties.encryption) +
           (properties.durability == "fsync" ? ", fsync" : "") +
           (properties.cache ? ", cache" : "");
}

// "12 MiB of 1 GiB, 30 files of 1000". A file has two single values.
std::string use_text(const object::ContainerRecord& container, const Properties& properties) {
    const object::Amount& caps = container.properties.caps;
    const auto files = [](uint64_t values) { return values / object::values_of_file; };
    std::string text = human_bytes(container.used.bytes);
    if (caps.bytes > 0) text += " of " + human_bytes(caps.bytes);
    if (properties.cache) return text + fmt::format(", {} blocks", properties.cache->use.blocks);
    text += fmt::format(", {} files", files(container.used.values));
    if (caps.values > 0) text += fmt::format(" of {}", files(caps.values));
    return text;
}

Result<object::ContainerChange> change_of(const ContainerOptions& options, Report& report) {
    object::ContainerChange change{.owner = options.owner};
    if (options.space) {
        ROS2S_TRY_ASSIGN(change.bytes, tenancy::parse_space_cap(*options.space, "--space", report));
    }
    if (options.files) {
        ROS2S_TRY_ASSIGN(change.values,
                         tenancy::parse_files_cap(*options.files, "--files", report));
    }
    return change;
}

Result<std::unique_ptr<cipher::KeyCalls>> key_calls(const CommandContext& context) {
    const std::string location = api::key_place();
    if (!location.empty()) {
        return cipher::KeyCalls::open(context.environment, location, context.report);
    }
    return context.report.fail(
        Code::invalid,
        "say where the keys are: export ROS2STORE_KEYS=DIR, or a token's URI (pkcs11:token=…). "
        "Make a key: (umask 077; openssl rand -hex 32 > DIR/NAME.key)");
}

Result<> check_encryption(const ContainerOptions& options, Report& report) {
    if (options.encryption != "none" && options.encryption != "aes-256-gcm") {
        return report.fail(Code::invalid, "there is no encryption '{}': give none or aes-256-gcm",
                           options.encryption);
    }
    if ((options.encryption == "none") == options.key.empty()) return {};
    return report.fail(Code::invalid, options.key.empty()
                                          ? "an encrypted container needs a key: give --key NAME"
                                          : "a key is used with --encryption aes-256-gcm only");
}

Result<std::optional<fs::Durability>> durability_in(const ContainerOptions& options,
                                                    const api::Uri& uri, Report& report) {
    if (!options.durability) return std::nullopt;
    if (uri.transport == api::Uri::Transport::dpu) {
        return report.fail(Code::unsupported,
                           "'{}' is behind a DPU, which cannot set a durability: use a URI of the "
                           "engine (ros2s://)",
                           uri.container);
    }
    ROS2S_TRY_ASSIGN(const auto durability, fs::parse_durability(*options.durability, report));
    return durability;
}

Task<Result<>> set_durability(CommandContext context, PoolAccess& pool,
                              const object::ContainerRecord& container, fs::Durability durability) {
    ROS2S_CO_TRY_ASSIGN(auto* const store, co_await pool.store());
    co_return co_await fs::set_durability(context.call, context.environment.reactor, *store,
                                          container, durability, context.report);
}

// Nothing: it is to be no cache.
Result<std::optional<Duration>> cache_in(const ContainerOptions& options, const api::Uri& uri,
                                         Report& report) {
    if (!options.is_cache) {
        if (!options.ttl) return std::nullopt;
        return report.fail(Code::invalid, "--ttl is for a cache: give --cache");
    }
    if (uri.transport == api::Uri::Transport::dpu) {
        return report.fail(
            Code::unsupported,
            "a cache is created at its engine: name it, as in ros2s://ENGINE/POOL/{}",
            uri.container);
    }
    if (!options.space) {
        return report.fail(Code::invalid, "a cache needs a budget: give --size, as in 20GiB");
    }
    Duration ttl{};
    if (options.ttl) {
        const auto parsed = config::parse_duration(*options.ttl);
        if (!parsed || *parsed <= Duration{}) {
            return report.fail(Code::invalid, "--ttl {} is no time: give one as in 12h",
                               *options.ttl);
        }
        ttl = *parsed;
    }
    return ttl;
}

constexpr Duration undoing_max = std::chrono::seconds(10);

// An interrupted creation with a key may have left a plain container. The user must not take it for
// an encrypted one.
Task<> say_if_plain(CommandContext context, PoolAccess& pool, std::string label) {
    const Call asking{.deadline = context.environment.reactor.now() + undoing_max};
    const CommandContext afterwards{.console = context.console,
                                    .environment = context.environment,
                                    .call = asking,
                                    .report = context.report};
    const auto containers = co_await pool.containers(asking);
    if (!containers) co_return;
    for (const auto& each : *containers) {
        if (each.properties.label != label) continue;
        if (co_await encryption_of(afterwards, pool, each) != "none") co_return;
        context.report.say(
            "'{}' is not encrypted: if its creation with a key was interrupted, remove it with "
            "'ros2store container destroy'",
            label);
    }
}

Task<Result<object::ContainerRecord>> create_in(CommandContext context, PoolAccess& pool,
                                                object::ContainerProperties properties,
                                                ContainerOptions options) {
    ROS2S_CO_TRY(check_encryption(options, context.report));
    const fs::Owner owner{.uid = geteuid(), .gid = getegid()};
    const std::string label = properties.label;
    if (options.key.empty()) co_return co_await pool.create(context.call, properties, owner);
    // All that may be wrong with the key is found before anything is made.
    ROS2S_CO_TRY_ASSIGN(auto* const store, co_await pool.store());
    ROS2S_CO_TRY_ASSIGN(const auto provider, key_calls(context));
    ROS2S_CO_TRY_ASSIGN(const cipher::KeyRecord keys,
                        co_await cipher::make_keys(context.call, *provider, options.key,
                                                   store->features(), context.report));
    const auto created = co_await pool.create(context.call, properties, owner);
    if (!created) {
        if (created.error().code == Code::exists || created.error().code == Code::cancelled) {
            co_await say_if_plain(context, pool, label);
        }
        co_return fail(created.error());
    }
    const object::ContainerRecord& made = *created;
    const std::string bytes = cipher::encode(keys);
    const auto encrypted = co_await fs::require_decryption(context.call, *store, made,
                                                           cipher::put_keys(bytes), context.report);
    if (encrypted) co_return made;
    // It must not stay behind without encryption, also after an interruption, which has stopped
    // `context.call`.
    const Call undoing{.deadline = context.environment.reactor.now() + undoing_max};
    if (!co_await pool.destroy(undoing, label)) {
        context.report.say(
            "'{}' was created and is not encrypted: remove it with 'ros2store container destroy'",
            label);
    }
    co_return fail(encrypted.error());
}

// The name of the key that was used before.
Task<Result<std::string>> rekey_in(CommandContext context, PoolAccess& pool, std::string label,
                                   std::string key) {
    ROS2S_CO_TRY_ASSIGN(auto* const store, co_await pool.store());
    ROS2S_CO_TRY_ASSIGN(const auto provider, key_calls(context));
    ROS2S_CO_TRY_ASSIGN(const auto container, co_await pool.find(context.call, label));
    const std::string shown = fmt::format("the container '{}'", label);
    ROS2S_CO_TRY_ASSIGN(auto found, co_await cipher::find_keys(context.call, *store, container.id,
                                                               shown, context.report));
    std::string before = found.record.wrapping;
    ROS2S_CO_TRY_ASSIGN(
        auto keys, co_await cipher::wrap_again(context.call, *provider, std::move(found.record),
                                               std::move(key), context.report));
    const auto done = co_await cipher::replace_keys(context.call, *store, container.id, found.epoch,
                                                    std::move(keys));
    if (done) co_return before;
    co_return context.report.fail(done.error(), "the keys of {} cannot be replaced: {}", shown,
                                  describe(done.error()));
}

// A container that should be a cache must not stay behind as another one.
Task<Result<>> make_cache(CommandContext context, PoolAccess& pool,
                          const object::ContainerRecord& made, Duration ttl) {
    ROS2S_CO_TRY_ASSIGN(auto* const store, co_await pool.store());
    const auto done = co_await fs::make_cache(context.call, *store, made, ttl, context.report);
    if (done) co_return done;
    const Call undoing{.deadline = context.environment.reactor.now() + undoing_max};
    if (!co_await pool.destroy(undoing, made.properties.label)) {
        context.report.say(
            "'{}' was created and is no cache: remove it with 'ros2store container destroy'",
            made.properties.label);
    }
    co_return done;
}

}  // namespace

Task<Result<>> container_create(CommandContext context, ContainerOptions options) {
    ROS2S_CO_TRY_ASSIGN(const api::Uri uri, container_uri(options.location, context.report));
    ROS2S_CO_TRY_ASSIGN(const uint64_t chunk, size_of(options.chunk, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto caps, change_of(options, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto durability, durability_in(options, uri, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto ttl, cache_in(options, uri, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto pool, co_await access_pool_of(context, uri, true));
    const auto made = co_await create_in(
        context, *pool,
        {.label = uri.container,
         .chunk_bytes = chunk,
         .caps = {.bytes = caps.bytes.value_or(0), .values = caps.values.value_or(0)}},
        options);
    // If this fails, the container is durable, which is safe.
    Result<> set;
    if (made && durability) set = co_await set_durability(context, *pool, *made, *durability);
    if (made && set && ttl) set = co_await make_cache(context, *pool, *made, *ttl);
    co_await pool->close();
    ROS2S_CO_TRY(made);
    ROS2S_CO_TRY(set);
    context.console.say("container '{}' is ready: {}", uri.container, uri.to_string());
    // A DPU's settings can encrypt what hosts create.
    const bool by_dpu = uri.transport == api::Uri::Transport::dpu;
    const std::string_view shown = fs::to_string(durability.value_or(fs::Durability::durable));
    context.console.answer(value_of(*made, uri.to_string(),
                                    {.encryption = by_dpu ? "unknown" : options.encryption,
                                     .durability = std::string(by_dpu ? "unknown" : shown)}));
    co_return Result<>{};
}

Task<Result<>> container_rekey(CommandContext context, ContainerOptions options) {
    ROS2S_CO_TRY_ASSIGN(const api::Uri uri, container_uri(options.location, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto pool, co_await access_pool_of(context, uri));
    const auto done = co_await rekey_in(context, *pool, uri.container, options.key);
    co_await pool->close();
    ROS2S_CO_TRY(done);
    context.console.say(
        "container '{}' needs the key '{}' now; the key '{}' is not needed for it any more",
        uri.container, options.key, *done);
    context.console.answer(
        Json::object({{"container", uri.container}, {"key", options.key}, {"key_before", *done}}));
    co_return Result<>{};
}

Task<Result<>> container_set(CommandContext context, ContainerOptions options) {
    ROS2S_CO_TRY_ASSIGN(const api::Uri uri, container_uri(options.location, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto change, change_of(options, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto durability, durability_in(options, uri, context.report));
    const bool changes = change.owner || change.bytes || change.values;
    if (!changes && !durability) {
        co_return context.report.fail(
            Code::invalid, "nothing to change: give --space, --files, --owner or --durability");
    }
    ROS2S_CO_TRY_ASSIGN(const auto pool, co_await access_pool_of(context, uri));
    const auto now = changes ? co_await pool->set(context.call, uri.container, change)
                             : co_await pool->find(context.call, uri.container);
    Result<> set;
    if (now && durability) set = co_await set_durability(context, *pool, *now, *durability);
    Properties properties;
    if (now) properties = co_await properties_of(context, *pool, *now);
    co_await pool->close();
    ROS2S_CO_TRY(now);
    ROS2S_CO_TRY(set);
    context.console.say("container '{}': {}, durability {}", uri.container,
                        use_text(*now, properties), properties.durability);
    context.console.answer(value_of(*now, uri.to_string(), properties));
    co_return Result<>{};
}

Task<Result<>> container_list(CommandContext context, ContainerOptions options) {
    ROS2S_CO_TRY_ASSIGN(api::Uri shown, pool_uri(options.location, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto pool, co_await access_pool_of(context, shown));
    const auto containers = co_await pool->containers(context.call);
    std::vector<Properties> properties;
    if (containers) {
        for (const auto& container : *containers) {
            properties.push_back(co_await properties_of(context, *pool, container));
        }
    }
    co_await pool->close();
    ROS2S_CO_TRY(containers);
    std::vector<Json> values;
    for (size_t i = 0; i < containers->size(); ++i) {
        const auto& container = (*containers)[i];
        shown.container = container.properties.label;
        const std::string uri = shown.to_string();
        if (container.id.uuid.is_nil()) {
            context.console.say("{:<16} a directory of the DPU's machine, or in DAOS  {}",
                                shown.container, uri);
            values.push_back(Json::object({{"container", shown.container}, {"uri", uri}}));
            continue;
        }
        context.console.say("{:<16} {}  {:<32} {:<12} {}", container.properties.label,
                            time_text(container.created), use_text(container, properties[i]),
                            text_of(properties[i]), uri);
        values.push_back(value_of(container, uri, properties[i]));
    }
    context.console.answer(Json::object({{"containers", Json::array(values)}}));
    co_return Result<>{};
}

Task<Result<>> container_query(CommandContext context, ContainerOptions options) {
    ROS2S_CO_TRY_ASSIGN(const api::Uri uri, container_uri(options.location, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto pool, co_await access_pool_of(context, uri));
    const auto container = co_await pool->find(context.call, uri.container);
    Properties properties;
    if (container) properties = co_await properties_of(context, *pool, *container);
    co_await pool->close();
    ROS2S_CO_TRY(container);
    const std::string& owner = container->properties.owner;
    context.console.say(
        "container   {}\nid          {}\nchunks      {}\ncreated     {}\nencryption  {}\n"
        "durability  {}\nowner       {}\nused        {}",
        container->properties.label, container->id.uuid.to_string(),
        human_bytes(container->properties.chunk_bytes), time_text(container->created),
        properties.encryption, properties.durability, owner.empty() ? "administrators" : owner,
        use_text(*container, properties));
    if (properties.cache) context.console.say("cache       {}", cache_text(*properties.cache));
    context.console.answer(value_of(*container, uri.to_string(), properties));
    co_return Result<>{};
}

Task<Result<>> container_destroy(CommandContext context, ContainerOptions options) {
    ROS2S_CO_TRY_ASSIGN(const api::Uri uri, container_uri(options.location, context.report));
    if (!options.yes) {
        co_return context.report.fail(Code::denied,
                                      "this removes the container '{}' of pool '{}' and every file "
                                      "in it; if that is what you want, add --yes",
                                      uri.container, uri.pool);
    }
    ROS2S_CO_TRY_ASSIGN(const auto pool, co_await access_pool_of(context, uri));
    const auto done = co_await pool->destroy(context.call, uri.container);
    co_await pool->close();
    ROS2S_CO_TRY(done);
    context.console.say("removed the container '{}'", uri.container);
    context.console.answer(Json::object({{"container", uri.container}}));
    co_return Result<>{};
}

Task<Result<>> container_check(CommandContext context, ContainerOptions options) {
    ROS2S_CO_TRY_ASSIGN(const api::Uri uri, container_uri(options.location, context.report));
    ROS2S_CO_TRY_ASSIGN(
        const auto opened,
        co_await api::Deployment::open(
            context.call, context.environment, uri,
            {.embedded = {.program = "ros2store"}, .read_only = !options.free, .caches = false},
            context.report));
    auto* const dfs = dynamic_cast<fs::Dfs*>(&opened->file_system());
    Result<fs::Leaks> leaks = fail(Code::unsupported);
    if (dfs == nullptr) {
        context.report.say(
            "{} is {}, which gives no access to objects: unmount the container, or name the "
            "engine, as in ros2s://engine:7400/pool/main",
            options.location, opened->path());
    } else {
        if (options.free) {
            const auto swept = co_await opened->sweep(context.call, uri.container, context.report);
            if (!swept) {
                co_await opened->close();
                co_return swept;
            }
        }
        leaks = co_await dfs->check(context.call, options.free);
        if (!leaks) {
            context.report.say("cannot check the container '{}': {}", uri.container,
                               describe(leaks.error()));
        }
    }
    co_await opened->close();
    ROS2S_CO_TRY(leaks);
    if (leaks->objects == 0) {
        context.console.say("every object of '{}' has its inode", uri.container);
    } else {
        context.console.say(
            "{} {} without an inode, {}: {}", leaks->objects,
            leaks->objects == 1 ? "object" : "objects", human_bytes(leaks->bytes),
            options.free ? "freed" : "no name leads to them; --free gives their space back");
    }
    if (leaks->keys > 0) {
        context.console.say("keys in directories that are no names of files: {}, {}", leaks->keys,
                            options.free
                                ? "removed"
                                : "so the directories cannot be removed; --free removes the keys");
    }
    context.console.answer(Json::object({{"container", uri.container},
                                         {"objects", leaks->objects},
                                         {"keys", leaks->keys},
                                         {"bytes", leaks->bytes},
                                         {"freed", options.free}}));
    co_return Result<>{};
}

}  // namespace ros2s::cli
