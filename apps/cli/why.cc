// why: how I/O on a file travels (promise: the path is reported, never guessed), and one read of 4
// KiB, step by step. With --write also one write, of the very bytes that were read.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "places.h"
#include "ros2s/base/bytes.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::cli {
namespace {

double microseconds(Duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
}

struct Traced {
    Trace trace;
    Duration whole{};
};

Json value_of(const Traced& traced) {
    std::vector<Json> steps;
    for (const TraceStep& step : traced.trace.steps()) {
        steps.push_back(Json::object(
            {{"step", step.name},
             {"depth", step.depth},
             {"begin_us", microseconds(step.begin - traced.trace.steps().front().begin)},
             {"us", microseconds(step.end - step.begin)}}));
    }
    return Json::object({{"us", microseconds(traced.whole)}, {"steps", Json::array(steps)}});
}

void say(const Session& session, std::string_view what, const Traced& traced) {
    session.say(fmt::format("\n{}: {:.1f} µs\n{:>10} {:>10}  step", what,
                            microseconds(traced.whole), "from µs", "takes µs"));
    for (const TraceStep& step : traced.trace.steps()) {
        session.say(fmt::format("{:>10.1f} {:>10.1f}  {:{}}{}",
                                microseconds(step.begin - traced.trace.steps().front().begin),
                                microseconds(step.end - step.begin), "",
                                static_cast<size_t>(step.depth) * 2, step.name));
    }
}

Task<Result<uint64_t>> read_once(Workplace work, const Place& place, fs::FileHandle handle,
                                 fs::Window window, uint64_t offset, Traced& traced) {
    Call call = work.call;
    call.trace = &traced.trace;
    const Time begin = work.environment.reactor.now();
    auto bytes = co_await place.file_system->pread(call, handle, window, offset);
    traced.whole = work.environment.reactor.now() - begin;
    co_return bytes;
}

Task<Result<uint64_t>> write_once(Workplace work, const Place& place, fs::FileHandle handle,
                                  fs::Window window, uint64_t offset, Traced& traced) {
    Call call = work.call;
    call.trace = &traced.trace;
    const Time begin = work.environment.reactor.now();
    auto bytes = co_await place.file_system->pwrite(call, handle, window, offset);
    traced.whole = work.environment.reactor.now() - begin;
    co_return bytes;
}

Task<Result<>> explain_file(Workplace work, const Place& place, fs::FileHandle handle,
                            const WhyOptions& options, uint64_t size) {
    const AlignedBuffer buffer(block_bytes);
    // The first read of a process pays for what later ones find in memory: it is not the one shown.
    Traced first, read, write;
    const fs::Window window = fs::Window::local(buffer.bytes());
    const auto warmed = co_await read_once(work, place, handle, window, options.offset, first);
    if (!warmed) co_return explain(work, place.shown, warmed.error());
    const auto bytes = co_await read_once(work, place, handle, window, options.offset, read);
    if (!bytes) co_return explain(work, place.shown, bytes.error());
    if (options.write && *bytes > 0) {
        const auto written = co_await write_once(work, place, handle, window.slice(0, *bytes),
                                                 options.offset, write);
        if (!written) co_return explain(work, place.shown, written.error());
    }
    ROS2S_CO_TRY_ASSIGN(const fs::PathReport report, place.file_system->path_report(handle));
    const Session& session = work.session;
    session.say(fmt::format("{}, {} bytes", place.shown, size));
    session.say(fmt::format("opened    {}\nI/O path  {}", place.travels, report.path));
    say(session, fmt::format("one read of {} bytes at {}", *bytes, options.offset), read);
    if (options.write && *bytes > 0) {
        say(session, fmt::format("one durable write of {} bytes at {}", *bytes, options.offset),
            write);
    }
    session.answer(Json::object({{"path", place.shown},
                                 {"bytes", size},
                                 {"opened", place.travels},
                                 {"io_path", report.path},
                                 {"staged", report.staged},
                                 {"read", value_of(read)},
                                 {"write", options.write ? value_of(write) : Json()}}));
    co_return Result<>{};
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
    const auto opened = co_await place.file_system->open(work.call, found.node,
                                                         {.read = true, .write = options.write});
    if (!opened) co_return explain(work, place.shown, opened.error());
    const auto done = co_await explain_file(work, place, opened->handle, options, found.size);
    const auto closed = co_await place.file_system->close(work.call, opened->handle);
    co_return done ? closed : done;
}

}  // namespace

Task<Result<>> why(Workplace work, WhyOptions options) {
    Places places(work);
    const auto done = co_await why_one(work, places, options);
    co_await places.close();
    co_return done;
}

}  // namespace ros2s::cli
