// up: makes a pool in a directory if there is none, and starts the daemons that serve it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "commands.h"
#include "pool/pool_access.h"
#include "pool/pool_creation.h"
#include "pool/pool_location.h"
#include "process.h"
#include "ros2s/api/uri.h"
#include "ros2s/pool/pool_directory.h"
#include "service_files.h"
#include "services.h"

namespace ros2s::cli {
namespace {

// The path at which the build or the package installs it; "": it does not exist.
std::string fio_plugin() {
    for (const char* location : {"/../plugins/fio", "/../lib/ros2store"}) {
        const auto plugin =
            std::filesystem::path(own_directory() + location + "/libros2store-fio.so");
        std::error_code failed;
        if (std::filesystem::exists(plugin, failed)) return plugin.lexically_normal();
    }
    return {};
}

// A file size that leaves space for others: a power of two of MiB, at most a GiB, in fio's form.
std::string fio_size(const pool::PoolDirectory& pool) {
    constexpr uint64_t mib = uint64_t{1} << 20;
    const uint64_t mebibytes =
        std::min(std::bit_floor(pool.device_bytes / 4 / mib), uint64_t{1024});
    return mebibytes == 1024 ? "1G" : fmt::format("{}M", mebibytes);
}

// Suggests the next commands.
void propose(const Console& console, const pool::PoolDirectory& pool, api::Uri uri) {
    uri.path.clear();
    const std::string container = uri.to_string();
    uri.path = "include";
    console.say("Next, for example:");
    console.say("  ros2store cp -r /usr/include {}", shell_word(uri.to_string()));
    console.say("  ros2store ls -l {}", shell_word(uri.to_string()));
    console.say("  mkdir -p /mnt/ros2s && ros2store mount {} /mnt/ros2s", shell_word(container));
    if (const std::string plugin = fio_plugin(); !plugin.empty()) {
        console.say(
            "  fio --ioengine=external:{} --thread --uri={} --name=r --filename=f --size={} "
            "--rw=randread --bs=4k --iodepth=32",
            shell_word(plugin), shell_word(container), fio_size(pool));
    }
    console.say("  ros2store down {0} && ros2store pool destroy --yes {0}",
                shell_word(pool.directory));
}

Task<Result<>> up_without_daemons(CommandContext context, UpOptions options) {
    ROS2S_CO_TRY_ASSIGN(const pool::PoolDirectory pool, co_await create_pool(context, options));
    const std::string label = options.container.value_or(default_container);
    const api::Uri uri{.pool = pool.config.pool, .container = label, .dir = pool.directory};
    const std::string container = uri.to_string();
    const Console& console = context.console;
    console.answer(Json::object({{"uri", container},
                                 {"directory", pool.directory},
                                 {"pool", pool.config.pool},
                                 {"container", label},
                                 {"bytes", pool.device_bytes},
                                 {"devices", Json::array(device_list(pool))}}));
    console.say("Pool '{}' with container '{}' is ready: {} in {}\n", pool.config.pool, label,
                devices_text(pool), pool.directory);
    console.say("  {}\n", container);
    propose(console, pool, uri);
    warn_of_memory(console, pool);
    co_return Result<>{};
}

// An existing pool must have the properties that were requested.
Result<> check_options(const UpOptions& options, const pool::PoolDirectory& pool, Report& report) {
    const auto refuse = [&](std::string_view option, const std::string& remedy) {
        return report.fail(
            Code::exists,
            "there is a pool in {} already ('{}', {}), and {} is for a new one: leave it out{}",
            pool.directory, pool.config.pool, devices_text(pool), option, remedy);
    };
    if (options.pool && *options.pool != pool.config.pool) return refuse("--pool", "");
    if (options.devices && *options.devices != pool.devices.size()) return refuse("--devices", "");
    if (!options.device_directories.empty()) return refuse("--device-dir", "");
    if (!options.size) return {};
    ROS2S_TRY_ASSIGN(const uint64_t bytes, size_of(*options.size, report));
    constexpr uint64_t block = 4096;
    const uint64_t each = bytes / pool.devices.size() / block * block;
    if (each * pool.devices.size() == pool.device_bytes) return {};
    return refuse("--size", ", or add to it: ros2store pool grow");
}

struct PoolToServe {
    pool::PoolDirectory pool;
    bool made = false;
};
Task<Result<PoolToServe>> pool_to_serve(CommandContext context, const UpOptions& options) {
    Report none;
    const auto there = pool::read_pool_settings(options.directory, none);
    if (there) {
        ROS2S_CO_TRY_ASSIGN(auto pool,
                            pool::read_pool_directory(options.directory, context.report));
        ROS2S_CO_TRY(check_options(options, pool, context.report));
        co_return PoolToServe{.pool = std::move(pool)};
    }
    if (there.error().code != Code::not_found) {
        co_return context.report.fail(there.error(), none.text());
    }
    ROS2S_CO_TRY_ASSIGN(auto made, co_await create_pool(context, options));
    co_return PoolToServe{.pool = std::move(made), .made = true};
}

// The container that the URIs name. Errors: not_found (the requested one).
Task<Result<std::string>> choose_container(CommandContext context, UpOptions options) {
    ROS2S_CO_TRY_ASSIGN(const auto pool, co_await access_pool(context, options.directory));
    const auto containers = co_await pool->containers(context.call);
    co_await pool->close();
    ROS2S_CO_TRY(containers);
    const std::string wanted = options.container.value_or(default_container);
    for (const auto& each : *containers) {
        if (each.properties.label == wanted) co_return wanted;
    }
    if (options.container) {
        co_return context.report.fail(Code::not_found,
                                      "the daemons run, but the pool in {} has no container '{}': "
                                      "ros2store container create, or leave --container out",
                                      options.directory, wanted);
    }
    co_return containers->empty() ? wanted : containers->front().properties.label;
}

void report_up(const Console& console, const std::string& container, const PoolToServe& served,
               const std::vector<Service>& services) {
    const pool::PoolDirectory& pool = served.pool;
    const auto uri_by = [&](api::Uri::Transport transport) {
        return api::Uri{.transport = transport,
                        .pool = pool.config.pool,
                        .container = container,
                        .dir = pool.directory};
    };
    const api::Uri offload = uri_by(api::Uri::Transport::dpu);
    const std::string direct = uri_by(api::Uri::Transport::direct).to_string();
    const std::string local = uri_by(api::Uri::Transport::local).to_string();
    console.answer(Json::object(
        {{"uri", offload.to_string()},
         {"uris",
          Json::object({{"offload", offload.to_string()}, {"direct", direct}, {"local", local}})},
         {"directory", pool.directory},
         {"pool", pool.config.pool},
         {"container", container},
         {"bytes", pool.device_bytes},
         {"devices", Json::array(device_list(pool))},
         {"made", served.made},
         {"daemons", value_of(services)}}));
    console.say("Pool '{}' is {}: {} in {}", pool.config.pool, served.made ? "ready" : "there",
                devices_text(pool), pool.directory);
    for (const Service& service : services) {
        console.say("{:<17} {} process {}", service.paths.program,
                    service.changed ? "started," : "ran already,", service.running.pid);
    }
    console.say(
        "\n  {}   through the DPU daemon\n  {}       straight to the engine\n  {} through the "
        "process that has the pool open\n",
        offload.to_string(), direct, local);
    propose(console, pool, offload);
    warn_of_memory(console, pool);
}

Task<Result<>> up_with_daemons(CommandContext context, UpOptions options) {
    ROS2S_CO_TRY_ASSIGN(options.directory, absolute_directory(options.directory, context.report));
    // Checks everything that can be checked before anything is made.
    ROS2S_CO_TRY(check_service_directory(options.directory, context.report));
    ROS2S_CO_TRY(check_providers(options.providers, options.trusted_network, context.report));
    for (const auto& daemon : daemons_of(api::ServicePaths(options.directory))) {
        ROS2S_CO_TRY(daemon_program(daemon.program, context.report));
    }
    ROS2S_CO_TRY_ASSIGN(const PoolToServe served, co_await pool_to_serve(context, options));
    ROS2S_CO_TRY_ASSIGN(const RunLock turn, co_await take_turn(context, options.directory));
    ROS2S_CO_TRY(co_await make_service_files(context, {.directory = options.directory,
                                                       .pool = served.pool.config.pool,
                                                       .providers = options.providers}));
    ROS2S_CO_TRY_ASSIGN(const auto services, co_await start_services(context, options.directory));
    ROS2S_CO_TRY_ASSIGN(const std::string container, co_await choose_container(context, options));
    report_up(context.console, container, served, services);
    co_return Result<>{};
}

}  // namespace

Task<Result<>> up(CommandContext context, UpOptions options) {
    if (options.no_daemons) co_return co_await up_without_daemons(context, std::move(options));
    co_return co_await up_with_daemons(context, std::move(options));
}

}  // namespace ros2s::cli
