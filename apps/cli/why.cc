// why: how I/O on a file travels (promise: the path is reported, never guessed), and one read of 4
// KiB, step by step. With --write also one write, of the very bytes that were read.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include "mounted_why.h"
#include "places.h"
#include "ros2s/api/file_trace.h"
#include "ros2s/api/trace_file.h"

namespace ros2s::cli {
namespace {

double microseconds(Duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
}

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

void say(const Session& session, std::string_view what, const api::RequestTrace& request) {
    session.say(fmt::format("\n{}: {:.1f} µs", what, microseconds(request.whole)));
    if (request.steps.empty()) {
        session.say("  of which nothing below says its steps");
        return;
    }
    session.say(fmt::format("{:>10} {:>10}  step", "from µs", "takes µs"));
    for (const auto& step : request.steps) {
        session.say(fmt::format("{:>10.1f} {:>10.1f}  {:{}}{}", microseconds(step.begin),
                                microseconds(step.takes), "", static_cast<size_t>(step.depth) * 2,
                                step.name));
    }
}

struct Shown {
    const Place& place;
    const api::FileTrace& trace;
    uint64_t size = 0;
    const MountedTrace* mounted = nullptr;  // where the mount's process made the trace

    [[nodiscard]] std::string_view travels() const {
        if (mounted != nullptr && place.local) return "a local path in a mounted container (FUSE)";
        return place.travels;
    }
};

void tell(const Session& session, const WhyOptions& options, const Shown& shown) {
    const api::FileTrace& trace = shown.trace;
    session.say(fmt::format("{}, {} bytes", shown.place.shown, shown.size));
    session.say(fmt::format("opened    {}\nI/O path  {}", shown.travels(), trace.io.path));
    if (shown.mounted != nullptr) {
        session.say(
            fmt::format("the steps are those of the mount's process; the kernel and FUSE added "
                        "{:.1f} µs to the request for them",
                        microseconds(shown.mounted->around)));
    }
    if (trace.read.bytes == 0) {
        session.say(fmt::format("there is nothing to read at {}: the file has {} bytes",
                                options.offset, shown.size));
    }
    say(session, fmt::format("one read of {} bytes at {}", trace.read.bytes, options.offset),
        trace.read);
    if (trace.write) {
        const std::string where = shown.mounted != nullptr
                                      ? "to a file of its own in the same directory"
                                      : fmt::format("at {}", options.offset);
        say(session, fmt::format("one durable write of {} bytes {}", trace.write->bytes, where),
            *trace.write);
    }
    session.answer(Json::object(
        {{"path", shown.place.shown},
         {"bytes", shown.size},
         {"opened", shown.travels()},
         {"io_path", trace.io.path},
         {"staged", trace.io.staged},
         {"fuse_us", shown.mounted != nullptr ? Json(microseconds(shown.mounted->around)) : Json()},
         {"read", value_of(trace.read)},
         {"write", trace.write ? value_of(*trace.write) : Json()}}));
}

Result<> write_trace_file(const Workplace& work, const std::string& path,
                          const api::FileTrace& trace) {
    if (path.empty()) return {};
    errno = 0;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << api::to_trace_file(trace);
    file.close();
    if (file) return {};
    const int cause = errno;
    return work.report.fail(
        Error{Code::io, cause},
        fmt::format("cannot write the trace file {}: {}", path, std::strerror(cause)));
}

Task<Result<>> why_one(Workplace work, Places& places, const WhyOptions& options) {
    ROS2S_CO_TRY_ASSIGN(const Place place, co_await places.open(options.place));
    ROS2S_CO_TRY_ASSIGN(const fs::Attributes found, co_await find(work, place, Follow::yes));
    if (!S_ISREG(found.mode)) {
        co_return work.report.fail(
            Code::invalid,
            fmt::format(
                "{} is no regular file; name one to trace a read of it, for example one that "
                "`ros2store ls -R {}` shows",
                place.shown, shell_word(place.shown)));
    }
    ROS2S_CO_TRY_ASSIGN(const auto mounted, co_await trace_through_mount(work, place, options));
    if (mounted) {
        ROS2S_CO_TRY(write_trace_file(work, options.trace_file, mounted->trace));
        tell(work.session, options, {place, mounted->trace, mounted->size, &*mounted});
        co_return Result<>{};
    }
    const auto opened = co_await place.file_system->open(work.call, found.node,
                                                         {.read = true, .write = options.write});
    if (!opened) co_return explain(work, place.shown, opened.error());
    const auto kinds = options.write ? api::TraceKinds::read_and_write : api::TraceKinds::read;
    const auto traced =
        co_await api::trace_file(work.call, work.environment.reactor, *place.file_system,
                                 opened->handle, options.offset, kinds);
    const auto closed = co_await place.file_system->close(work.call, opened->handle);
    if (!traced) co_return explain(work, place.shown, traced.error());
    ROS2S_CO_TRY(write_trace_file(work, options.trace_file, *traced));
    tell(work.session, options, {place, *traced, found.size});
    co_return closed;
}

}  // namespace

Task<Result<>> why(Workplace work, WhyOptions options) {
    Places places(work, options.write ? Places::Use::changes : Places::Use::looks);
    const auto done = co_await why_one(work, places, options);
    co_await places.close();
    co_return done;
}

}  // namespace ros2s::cli
