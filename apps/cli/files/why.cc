// why: the path of a file's I/O (as reported, never guessed), and one read of 4 KiB, step by step.
// With --write also one write, of the same bytes that were read.
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "locations.h"
#include "pool/unsynced.h"
#include "ros2s/api/file_trace.h"
#include "ros2s/api/mount_trace.h"
#include "ros2s/runtime/trace_events.h"

namespace ros2s::cli {
namespace {

Json value_of(const api::RequestTrace& request) {
    std::vector<Json> steps;
    for (const auto& step : request.steps) {
        steps.push_back(Json::object({{"step", step.name},
                                      {"depth", step.depth},
                                      {"begin_us", microseconds(step.begin)},
                                      {"us", microseconds(step.takes)}}));
    }
    return Json::object({{"bytes", request.bytes},
                         {"us", microseconds(request.whole)},
                         {"steps", Json::array(steps)}});
}

void say(const Console& console, std::string_view what, const api::RequestTrace& request) {
    console.say("\n{}: {:.1f} µs", what, microseconds(request.whole));
    if (request.steps.empty()) {
        console.say("  (no step was recorded below this layer)");
        return;
    }
    console.say("{:>10} {:>10}  step", "from µs", "takes µs");
    for (const auto& step : request.steps) {
        console.say("{:>10.1f} {:>10.1f}  {:{}}{}", microseconds(step.begin),
                    microseconds(step.takes), "", static_cast<size_t>(step.depth) * 2, step.name);
    }
}

// A local path may lead anywhere; a path in a container stays in it.
std::string local_path(const Location& location) {
    return location.local ? location.host + "/" + location.path : location.host;
}

void tell(const Console& console, const WhyOptions& options, const Location& location,
          uint64_t size, const api::FileTrace& trace) {
    const std::string_view opened = trace.fuse && location.local
                                        ? "a local path in a mounted container (FUSE)"
                                        : std::string_view(location.travels);
    console.say("{}, {} bytes", location.shown, size);
    console.say("opened    {}\nI/O path  {}", opened, trace.io.path);
    if (!location.limits.empty()) console.say("weaker    " + location.limits);
    // Of the mount, of which fsync makes all durable.
    const auto unsynced = trace.fuse ? unsynced_of(local_path(location)) : std::nullopt;
    if (unsynced) console.say("volatile  " + describe(*unsynced));
    if (trace.fuse) {
        console.say(
            "the steps are those of the mount's process; the kernel and FUSE added {:.1f} µs to "
            "the request for them",
            microseconds(*trace.fuse));
    }
    if (trace.read.bytes == 0) {
        console.say("there is nothing to read at {}: the file has {} bytes", options.offset, size);
    }
    say(console, fmt::format("one read of {} bytes at {}", trace.read.bytes, options.offset),
        trace.read);
    if (trace.write) {
        say(console,
            fmt::format("one durable write of {} bytes at {}", trace.write->bytes, options.offset),
            *trace.write);
    }
    console.answer(Json::object({{"path", location.shown},
                                 {"bytes", size},
                                 {"opened", opened},
                                 {"io_path", trace.io.path},
                                 {"weaker", location.limits},
                                 {"unsynced", unsynced ? cli::value_of(*unsynced) : Json()},
                                 {"staged", trace.io.staged},
                                 {"fuse_us", trace.fuse ? Json(microseconds(*trace.fuse)) : Json()},
                                 {"read", value_of(trace.read)},
                                 {"write", trace.write ? value_of(*trace.write) : Json()}}));
}

Result<> write_trace_file(const CommandContext& context, const std::string& path,
                          const api::FileTrace& trace) {
    if (path.empty()) return {};
    errno = 0;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << api::to_trace_file(trace);
    file.close();
    if (file) return {};
    const int cause = errno;
    return context.report.fail(Error{Code::io, cause}, "cannot write the trace file {}: {}", path,
                               std::strerror(cause));
}

// Errors: no_attribute, unsupported (it is not in a mount of ours), those of the mount's process.
Task<Result<api::FileTrace>> ask_mount(CommandContext context, const Location& location,
                                       fs::NodeId node, uint64_t offset) {
    Reactor& reactor = context.environment.reactor;
    // The file system asks on a thread of the pool, and the time to switch threads is not the
    // kernel's. The fastest of several counts, because another process may have used the processor.
    Duration way = Duration::max();
    for (int attempt = 0; attempt < 8; ++attempt) {
        const Time begin = reactor.now();
        co_await context.environment.blocking.run(reactor, [] { return Result<>(); });
        way = std::min(way, reactor.now() - begin);
    }
    const Time begin = reactor.now();
    const auto text =
        co_await location.file_system->get_xattr(context.call, node, api::to_attribute(offset));
    const Duration took = reactor.now() - begin - way;
    ROS2S_CO_TRY(text);
    auto trace = api::parse_answer(*text, took);
    if (!trace) co_return fail(Code::no_attribute);
    co_return std::move(*trace);
}

// On any other file system, an attribute of that name is a user's own.
Task<bool> is_in_fuse(CommandContext context, const Location& location) {
    const std::string path = local_path(location);
    struct statfs system{};
    const auto asked = co_await context.environment.blocking.run(context.environment.reactor, [&] {
        return ::statfs(path.c_str(), &system) == 0 ? Result<>() : fail_errno(errno);
    });
    if (!asked) co_return false;
    co_return system.f_type == FUSE_SUPER_MAGIC;
}

// Traced by the mount's process, which has the pool (api/mount_trace.h). Nothing if the file is not
// in a mount of ours. Errors: reported.
Task<Result<std::optional<api::FileTrace>>> trace_through_mount(CommandContext context,
                                                                const Location& location,
                                                                fs::NodeId node,
                                                                const WhyOptions& options) {
    if (location.host.empty() || !co_await is_in_fuse(context, location)) {
        co_return std::optional<api::FileTrace>();
    }
    auto asked = co_await ask_mount(context, location, node, options.offset);
    if (!asked &&
        (asked.error().code == Code::no_attribute || asked.error().code == Code::unsupported)) {
        if (location.local) co_return std::optional<api::FileTrace>();  // a foreign mount, or none
        co_return context.report.fail(
            asked.error(),
            "{}: the process that has it mounted is of another version and cannot report the "
            "path of its I/O; unmount it (ros2store down) and try again",
            location.shown);
    }
    if (!asked) co_return explain(context, location.shown, asked.error());
    if (options.write) {
        co_return context.report.fail(
            Code::busy,
            "{}: a write is traced only while no process has it mounted, because another program "
            "may be writing there; leave out --write, or unmount it",
            location.shown);
    }
    co_return std::move(*asked);
}

Task<Result<>> why_one(CommandContext context, Locations& locations, const WhyOptions& options) {
    ROS2S_CO_TRY_ASSIGN(const Location location, co_await locations.open(options.location));
    ROS2S_CO_TRY_ASSIGN(const fs::Attributes found, co_await find(context, location, Follow::yes));
    if (!S_ISREG(found.mode)) {
        co_return context.report.fail(Code::invalid,
                                      "{} is not a regular file; name one to trace a read of it, "
                                      "for example one that `ros2store ls -R {}` shows",
                                      location.shown, shell_word(location.shown));
    }
    ROS2S_CO_TRY_ASSIGN(auto trace,
                        co_await trace_through_mount(context, location, found.node, options));
    Result<> closed;
    if (!trace) {
        const auto opened = co_await location.file_system->open(
            context.call, found.node, {.read = true, .write = options.write});
        if (!opened) co_return explain(context, location.shown, opened.error());
        const auto kinds = options.write ? api::TraceKinds::read_and_write : api::TraceKinds::read;
        auto traced =
            co_await api::trace_file(context.call, context.environment.reactor,
                                     *location.file_system, opened->handle, options.offset, kinds);
        closed = co_await location.file_system->close(context.call, opened->handle);
        if (!traced) co_return explain(context, location.shown, traced.error());
        trace = std::move(*traced);
    }
    ROS2S_CO_TRY(write_trace_file(context, options.trace_file, *trace));
    tell(context.console, options, location, found.size, *trace);
    co_return closed;
}

}  // namespace

Task<Result<>> why(CommandContext context, WhyOptions options) {
    Locations locations(context, options.write ? Locations::Use::changes : Locations::Use::looks);
    const auto done = co_await why_one(context, locations, options);
    co_await locations.close();
    co_return done;
}

}  // namespace ros2s::cli
