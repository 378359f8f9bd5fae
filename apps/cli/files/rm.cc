// rm: files, with -r whole trees. Many names are removed concurrently, because each removal is
// durable when it returns and a group of them shares one flush.
#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

#include "output/progress.h"
#include "places.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::cli {
namespace {

constexpr size_t side_by_side = 32;

class Removal {
  public:
    Removal(Workplace work, const Place& place)
        : work_(work),
          place_(place),
          progress_("removing", Progress::Unit::files, !work.session.json()) {}

    // Removes the contents of the directory, not the directory itself.
    Task<> empty_directory(fs::NodeId directory) {
        fs::FileSystem& file_system = *place_.file_system;
        const auto entries = co_await read_directory(work_, file_system, directory);
        if (!entries) {
            note(entries.error());
            co_return;
        }
        Nursery nursery(work_.environment.reactor, side_by_side);
        for (const auto& entry : *entries) {
            if (!first_failure_) break;
            if (const auto go_on = work_.call.check(work_.environment.reactor.now()); !go_on) {
                note(go_on.error());
                break;
            }
            if (S_ISDIR(entry.type)) {
                co_await remove_directory(directory, entry.name);
            } else {
                co_await nursery.spawn(remove_file(directory, entry.name));
            }
        }
        co_await nursery.join();
    }
    [[nodiscard]] Result<> result() const { return first_failure_; }
    [[nodiscard]] uint64_t removed() const { return removed_; }

  private:
    Task<> remove_file(fs::NodeId directory, std::string name) {
        const auto done = co_await place_.file_system->unlink(work_.call, directory, name);
        if (!done) {
            note(done.error());
        } else {
            progress_.update(++removed_, 0);
        }
    }
    Task<> remove_directory(fs::NodeId parent, std::string name) {
        fs::FileSystem& file_system = *place_.file_system;
        const auto found = co_await file_system.lookup(work_.call, parent, name);
        if (!found) {
            note(found.error());
            co_return;
        }
        co_await empty_directory(found->node);
        file_system.forget(found->node, 1);
        if (!first_failure_) co_return;
        const auto done = co_await file_system.rmdir(work_.call, parent, name);
        if (!done) {
            note(done.error());
        } else {
            progress_.update(++removed_, 0);
        }
    }
    void note(const Error& error) {
        // It was removed meanwhile.
        if (error.code == Code::not_found) return;
        if (first_failure_) first_failure_ = std::unexpected(error);
    }

    Workplace work_;
    const Place& place_;
    Progress progress_;
    Result<> first_failure_;
    uint64_t removed_ = 0;
};

Task<Result<>> remove(Workplace work, const Place& place, const FileOptions& options,
                      uint64_t& removed) {
    fs::FileSystem& file_system = *place.file_system;
    const auto found = co_await find_if_there(work, place, Follow::no);
    if (!found) {
        if (options.force && found.error().code == Code::not_found) co_return Result<>{};
        co_return explain(work, place.shown, found.error());
    }
    ROS2S_CO_TRY(check_slash(work, place, *found));
    ROS2S_CO_TRY_ASSIGN(const Slot slot, co_await find_slot(work, place));
    if (!S_ISDIR(found->mode)) {
        const auto done = co_await file_system.unlink(work.call, slot.directory, slot.name);
        if (!done) co_return explain(work, place.shown, done.error());
        ++removed;
        co_return Result<>{};
    }
    if (!options.recursive) {
        co_return work.report.fail(
            Code::is_directory,
            fmt::format("{} is a directory; `rm -r` removes it with everything in it",
                        place.shown));
    }
    Removal removal(work, place);
    co_await removal.empty_directory(found->node);
    removed += removal.removed();
    if (const auto done = removal.result(); !done)
        co_return explain(work, place.shown, done.error());
    const auto done = co_await file_system.rmdir(work.call, slot.directory, slot.name);
    if (!done) co_return explain(work, place.shown, done.error());
    ++removed;
    co_return Result<>{};
}

Task<Result<>> remove_named(Workplace work, Places& places, const std::string& text,
                            const FileOptions& options, uint64_t& removed) {
    ROS2S_CO_TRY_ASSIGN(const Place place, co_await places.open(text));
    co_return co_await remove(work, place, options, removed);
}

// If one cannot be removed, the others still are. Each failure is reported. The last one is the
// result of the run.
Task<Result<>> rm_all(Workplace work, Places& places, const FileOptions& options) {
    uint64_t removed = 0;
    Result<> last;
    Report last_complaint;
    for (const std::string& text : options.places) {
        auto done = work.call.check(work.environment.reactor.now());
        if (done) done = co_await remove_named(work, places, text, options, removed);
        if (done) continue;
        if (!last) work.session.complain(last_complaint.text());
        if (work.report.empty()) work.report.say(describe(done.error()));
        last_complaint = std::exchange(work.report, {});
        last = done;
        if (done.error().code == Code::cancelled) break;
    }
    if (last) work.session.answer(Json::object({{"removed", removed}}));
    work.report = last_complaint;
    co_return last;
}

}  // namespace

Task<Result<>> rm(Workplace work, FileOptions options) {
    return with_places(work, std::move(options), rm_all);
}

}  // namespace ros2s::cli
