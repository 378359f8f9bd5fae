// rm: files, with -r whole trees. Many names are removed concurrently, because each removal is
// durable when it returns and a group of them shares one flush.
#include <sys/stat.h>

#include "locations.h"
#include "output/progress.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::cli {
namespace {

constexpr size_t side_by_side = 32;

class Removal {
  public:
    Removal(CommandContext context, const Location& location)
        : context_(context),
          location_(location),
          progress_("removing", Progress::Unit::files, !context.console.json()) {}

    // Removes the contents of the directory, not the directory itself.
    Task<> empty_directory(fs::NodeId directory) {
        fs::FileSystem& file_system = *location_.file_system;
        const auto entries = co_await read_directory(context_, file_system, directory);
        if (!entries) {
            note(entries.error());
            co_return;
        }
        Nursery nursery(context_.environment.reactor, side_by_side);
        for (const auto& entry : *entries) {
            if (!first_failure_) break;
            if (const auto go_on = context_.call.check(context_.environment.reactor); !go_on) {
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
        const auto done = co_await location_.file_system->unlink(context_.call, directory, name);
        if (!done) {
            note(done.error());
        } else {
            progress_.update(++removed_, 0);
        }
    }
    Task<> remove_directory(fs::NodeId parent, std::string name) {
        fs::FileSystem& file_system = *location_.file_system;
        const auto found = co_await file_system.lookup(context_.call, parent, name);
        if (!found) {
            note(found.error());
            co_return;
        }
        co_await empty_directory(found->node);
        file_system.forget(found->node, 1);
        if (!first_failure_) co_return;
        const auto done = co_await file_system.rmdir(context_.call, parent, name);
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

    CommandContext context_;
    const Location& location_;
    Progress progress_;
    Result<> first_failure_;
    uint64_t removed_ = 0;
};

Task<Result<>> remove(CommandContext context, const Location& location, const FileOptions& options,
                      uint64_t& removed) {
    fs::FileSystem& file_system = *location.file_system;
    const auto found = co_await find_if_there(context, location, Follow::no);
    if (!found) {
        if (options.force && found.error().code == Code::not_found) co_return Result<>{};
        co_return explain(context, location.shown, found.error());
    }
    ROS2S_CO_TRY(check_slash(context, location, *found));
    ROS2S_CO_TRY_ASSIGN(const Entry entry, co_await find_entry(context, location));
    if (!S_ISDIR(found->mode)) {
        const auto done = co_await file_system.unlink(context.call, entry.directory, entry.name);
        if (!done) co_return explain(context, location.shown, done.error());
        ++removed;
        co_return Result<>{};
    }
    if (!options.recursive) {
        co_return context.report.fail(Code::is_directory,
                                      "{} is a directory; `rm -r` removes it with everything in it",
                                      location.shown);
    }
    Removal removal(context, location);
    co_await removal.empty_directory(found->node);
    removed += removal.removed();
    if (const auto done = removal.result(); !done)
        co_return explain(context, location.shown, done.error());
    const auto done = co_await file_system.rmdir(context.call, entry.directory, entry.name);
    if (!done) co_return explain(context, location.shown, done.error());
    ++removed;
    co_return Result<>{};
}

Task<Result<>> remove_named(CommandContext context, Locations& locations, const std::string& text,
                            const FileOptions& options, uint64_t& removed) {
    ROS2S_CO_TRY_ASSIGN(const Location location, co_await locations.open(text));
    co_return co_await remove(context, location, options, removed);
}

// If one cannot be removed, the others still are. Each failure is reported. The last one is the
// result of the run.
Task<Result<>> rm_all(CommandContext context, Locations& locations, const FileOptions& options) {
    uint64_t removed = 0;
    Failures failures(context);
    for (const std::string& text : options.locations) {
        auto done = context.call.check(context.environment.reactor);
        if (done) done = co_await remove_named(context, locations, text, options, removed);
        if (done) continue;
        failures.add(done.error());
        if (done.error().code == Code::cancelled) break;
    }
    if (!failures.any()) context.console.answer(Json::object({{"removed", removed}}));
    co_return failures.result();
}

}  // namespace

Task<Result<>> rm(CommandContext context, FileOptions options) {
    return with_locations(context, std::move(options), rm_all);
}

}  // namespace ros2s::cli
