// ros2store-fuse: mounts a container. Parses, opens the deployment on a reactor in this thread, and
// serves the kernel's requests until the file system is unmounted.
#include <fmt/format.h>
#include <syslog.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "connection_guard.h"
#include "mount_helper.h"
#include "mount_point.h"
#include "options.h"
#include "root_mount.h"
#include "ros2s/api/acting_user.h"
#include "ros2s/api/deployment.h"
#include "ros2s/base/mount_table.h"
#include "ros2s/fs/acl.h"
#include "ros2s/fs/container.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/bounded_end.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/process_limits.h"
#include "ros2s/runtime/thread_pool.h"
#include "server.h"
#include "signals.h"
#include "starter.h"

namespace ros2s::fuse {
namespace {

// The system's log. Problems that need an action also go to the terminal, while there is one.
Log background_log() {
    ::openlog("ros2store-fuse", LOG_PID, LOG_DAEMON);
    return Log([](LogLevel level, std::string_view line) {
        if (level >= LogLevel::warning) std::cerr << "ros2store-fuse: " << line << "\n";
        const int priority = level == LogLevel::error     ? LOG_ERR
                             : level == LogLevel::warning ? LOG_WARNING
                                                          : LOG_INFO;
        ::syslog(priority, "%.*s", static_cast<int>(line.size()), line.data());
    });
}

Task<> serve_then_stop_watching(Server& server, SignalWatch& watch, StopSource& served) {
    co_await server.serve();
    watch.stop();
    served.request_stop();
}

// Servers may have other clients, whose changes the kernel's caches would hide. So would they hide
// what the engine removes from a cache, which is no Dfs.
Sharing sharing_of(const Options& options, const fs::FileSystem& files) {
    const bool is_embedded = options.uri.transport == api::Uri::Transport::local &&
                             dynamic_cast<const fs::Dfs*>(&files) != nullptr;
    return options.exclusive || is_embedded ? Sharing::none : Sharing::shared;
}

// By which others learn who has the exclusive mount.
std::string name_of(const std::string& mount_point) {
    std::array<char, HOST_NAME_MAX + 1> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
    const std::string name =
        fmt::format("{}:{} (process {})", host.data(), mount_point, ::getpid());
    return name.substr(0, object::lock_holder_bytes_max);
}

std::function<std::string()> status_source(api::Deployment& deployment) {
    if (deployment.pool() == nullptr) return {};
    return [&pool = *deployment.pool()] {
        return fmt::format("{} {}", pool.targets(), pool.read_only_reason());
    };
}

std::function<std::string()> unsynced_source(api::Deployment& deployment) {
    if (deployment.pool() == nullptr || !deployment.file_system().is_deferred()) return {};
    return [&pool = *deployment.pool()] {
        const auto deferred = pool.deferred_of(0);
        return fmt::format("{} {} {}", deferred.changes, deferred.bytes,
                           deferred.age / std::chrono::milliseconds(1));
    };
}

std::span<char> command_line;  // the memory of main()'s arguments

// 0: it needs none.
Result<pid_t> guard(const Server& server, const std::string& mount_point, RootMount* root_mount) {
    if (server.caches()) return 0;  // no thread drops pages
    return guard_connection(mount_point,
                            root_mount != nullptr ? root_mount->take_abort_file()
                                                  : open_abort_file(mounted_on(mount_point).device),
                            command_line);
}

// Otherwise the kernel must apply the umask, and evaluate modes only.
Task<bool> has_access_lists(fs::FileSystem& file_system) {
    const Call call;
    const auto list = co_await file_system.get_xattr(call, fs::root_node, fs::access_acl_name);
    co_return list || list.error().code == Code::no_attribute;
}

// A write into a cache is refused when its file is closed, which the kernel does not wait for.
Task<bool> is_cache(fs::FileSystem& file_system) {
    const Call call;
    co_return (co_await file_system.get_xattr(call, fs::root_node, fs::cache_attribute))
        .has_value();
}

Task<Result<>> serve(const Options& options, const std::string& mount_point,
                     Environment environment, api::Deployment& deployment, int signals,
                     RootMount* root_mount, Starter& starter, Report& report) {
    const bool has_lists = co_await has_access_lists(deployment.file_system());
    const bool is_fixed = !has_lists && co_await is_cache(deployment.file_system());
    Server server(deployment.file_system(), environment.reactor, environment.blocking,
                  {.mount_point = mount_point,
                   .source = options.uri.to_string(),
                   .device = root_mount != nullptr ? root_mount->take_device() : -1,
                   .sharing = sharing_of(options, deployment.file_system()),
                   .caching = options.caching,
                   .exclusive = options.exclusive,
                   .read_only = options.read_only || is_fixed,
                   .allow_other = options.allow_other,
                   .no_exec = options.no_exec,
                   .asks_for_groups = options.uri.transport == api::Uri::Transport::dpu,
                   .access_lists = has_lists,
                   .status = status_source(deployment),
                   .unsynced = unsynced_source(deployment),
                   .log = environment.log});
    SignalWatch watch(environment.reactor, environment.blocking, environment.log, signals,
                      root_mount);
    const auto mounted = server.mount(report);
    if (mounted) {
        StopSource served;
        Nursery nursery(environment.reactor, 4);
        co_await nursery.spawn(serve_then_stop_watching(server, watch, served));
        co_await nursery.spawn(server.give_memory_back_at_rest(served.token()));
        co_await nursery.spawn(server.drop_old_pages(served.token()));
        co_await nursery.spawn(watch.watch(server, mount_point));
        co_await server.ready();
        const auto set = root_mount != nullptr ? root_mount->read_ahead_set()
                                               : set_read_ahead(mount_point, transfer_bytes_max);
        if (!set) {
            environment.log.info(
                "read-ahead stays at 128 KiB, which makes sequential reads of large files "
                "slower: " +
                describe(set.error()));
        }
        const auto guarded = guard(server, mount_point, root_mount);
        if (!guarded) {
            environment.log.info(fmt::format(
                "{}: if this process is killed while the server is away, programs may hang until "
                "`umount -f {}`: {}",
                mount_point, mount_point, describe(guarded.error())));
        }
        if (!server.maps_shared()) {
            environment.log.info(
                "this kernel is older than Linux 6.6: mmap with MAP_SHARED fails in " +
                mount_point + " (ENODEV), because reads of its files bypass the page cache");
        }
        environment.log.info(options.uri.to_string() + " is mounted on " + mount_point);
        if (options.print_pid) {
            std::printf("%d\n", ::getpid());
            std::fflush(stdout);
        }
        starter.ready();
        co_await nursery.join();
        if (!server.answered_all()) {
            environment.log.error("programs still used " + mount_point +
                                  " a minute after its end was requested: their last operations "
                                  "failed");
        }
        server.unmount();
        if (guarded && *guarded != 0) end_guard(*guarded);
        environment.log.info(mount_point + " is unmounted");
    }
    co_return mounted;
}

// The signal stays in the descriptor: a mount that began nevertheless ends by it. An opening that
// hangs ends the program.
Task<> stop_at_signal(PollWait& wait, StopSource& stop) {
    co_await wait.readable();
    if (wait.cancelled()) co_return;
    begin_bounded_end();
    stop.request_stop();
}

Task<Result<>> open_and_serve(const Options& options, const std::string& mount_point,
                              Environment environment, RootMount* root_mount, Starter& starter,
                              Report& report) {
    ROS2S_CO_TRY_ASSIGN(const int signals, SignalWatch::open_descriptor());
    StopSource stop;
    PollWait wait(environment.reactor, signals);
    Nursery watching(environment.reactor, 1);
    co_await watching.spawn(stop_at_signal(wait, stop));
    const Call call{.stop = stop.token()};
    api::DeploymentOptions how;
    how.through_owner = false;
    how.read_only = options.read_only;
    how.caches = options.caching;
    if (options.exclusive) how.exclusive_as = name_of(mount_point);
    how.embedded = {.program = "ros2store-fuse",
                    .mount_point = mount_point,
                    .container = options.uri.container};
    auto opened = co_await api::Deployment::open(call, environment, options.uri, how, report);
    wait.cancel();
    co_await watching.join();
    Result<> served;
    if (opened) {
        cancel_bounded_end();
        served = co_await serve(options, mount_point, environment, **opened, signals, root_mount,
                                starter, report);
        co_await (*opened)->close();
    } else {
        served = fail(opened.error());
    }
    ::close(signals);
    co_return served;
}

// Beside a helper thread, for any mount.
constexpr uint64_t own_memory_bytes = uint64_t{16} << 20;

int run(const Options& options) {
    Report report;
    const auto user = api::acting_user({options.uri.to_string()});
    const auto failed = [&report, &user](const Error& error) {
        const std::string reason = error.code == Code::cancelled ? "interrupted"
                                   : report.empty()              ? describe(error)
                                                                 : report.text();
        std::fprintf(stderr, "ros2store-fuse: %s%s\n", reason.c_str(),
                     user ? api::acting_as(*user).c_str() : "");
        return 1;
    };
    if (const auto fits = check_address_space(1, own_memory_bytes, "ros2store-fuse", report);
        !fits) {
        return failed(fits.error());
    }
    const auto mount_point = prepare_mount_point(options.mount_point, options.allow_other, report);
    if (!mount_point) return failed(mount_point.error());

    std::unique_ptr<RootMount> root_mount;
    if (user) {
        auto made =
            RootMount::make(*mount_point, options.uri.to_string(),
                            {options.read_only, options.allow_other, options.no_exec}, report);
        if (!made) return failed(made.error());
        root_mount = std::move(*made);
        if (const auto acts = api::act_as(*user, report); !acts) return failed(acts.error());
    }

    Starter starter;
    if (!options.foreground) starter.go_into_background();
    block_stop_signals();
    prepare_bounded_end("ros2store-fuse");
    const auto reactor =
        api::create_reactor(options.uri, report, {.thread_name = "ros2store-fuse"});
    if (!reactor) return failed(reactor.error());
    // Five may block while they drop pages and names (kernel_caches.h, page_reads.h,
    // kernel_view.h), until a request is served that may need the sixth.
    ThreadPool blocking(6);
    if (const auto started = blocking.start(report); !started) return failed(started.error());
    const Environment environment{
        .reactor = **reactor,
        .blocking = blocking,
        .log = starter.in_background() ? background_log() : log_to_stderr()};
    const auto result = (*reactor)->run(
        open_and_serve(options, *mount_point, environment, root_mount.get(), starter, report));
    return result ? 0 : failed(result.error());
}

std::optional<Options> parse(std::vector<std::string> arguments, int& exit_status) {
    std::vector<char*> pointers;
    for (std::string& each : arguments) pointers.push_back(each.data());
    pointers.push_back(nullptr);
    return parse_options(static_cast<int>(arguments.size()), pointers.data(), exit_status);
}

// mount(8) documents 1 for a wrong command and 32 for a failed mount.
int run_as_mount_helper(std::span<const char* const> arguments) {
    constexpr int wrong_command = 1, failed = 32;
    Report report;
    auto translated = translate_mount_helper(arguments, report);
    if (!translated) {
        std::fprintf(stderr, "mount.ros2store: %s\n", report.text().c_str());
        return wrong_command;
    }
    if (translated->empty()) return 0;
    int exit_status = 0;
    const auto options = parse(std::move(*translated), exit_status);
    if (!options) return exit_status == 0 ? 0 : wrong_command;
    return run(*options) == 0 ? 0 : failed;
}

int run_as_itself(std::span<const char* const> arguments) {
    constexpr int wrong_command = 2;
    Report report;
    auto translated = translate_mount_options(arguments, report);
    if (!translated) {
        std::fprintf(stderr, "ros2store-fuse: %s\n", report.text().c_str());
        return wrong_command;
    }
    int exit_status = 0;
    const auto options = parse(std::move(*translated), exit_status);
    return options ? run(*options) : exit_status;
}

}  // namespace
}  // namespace ros2s::fuse

int main(int count, char** arguments) {
    if (count > 0) {
        char* const last = arguments[count - 1];
        ros2s::fuse::command_line = {arguments[0], last + std::strlen(last)};
    }
    ros2s::prepare_for_limits();
    ros2s::end_without_memory();
    // gRPC would print its own lines about a failure that our one line describes.
    setenv("GRPC_VERBOSITY", "NONE", 0);
    using namespace ros2s::fuse;
    const std::span<const char* const> given(arguments, static_cast<size_t>(count));
    if (count > 0 && is_mount_helper(given.front())) return run_as_mount_helper(given);
    return run_as_itself(given);
}
