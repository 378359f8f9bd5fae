// pool check: compares what a closed pool has in its files with itself.
#include "ros2s/pool/pool_check.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "output/progress.h"
#include "pool_location.h"

namespace ros2s::cli {
namespace {

// Sentences that are printed. All problems are counted.
constexpr size_t sentences_max = 1000;

// The sentences of a check, for people when they come, and for programs at the end.
class Sentences {
  public:
    Sentences(const Console& console, const char* kind) : console_(console), kind_(kind) {}

    void add(const std::string& container, const std::string& sentence) {
        if (++count_ > sentences_max) return;
        const std::string where =
            container.empty() ? "" : fmt::format("container '{}': ", container);
        console_.say("{}: {}{}", kind_, where, console_.name(sentence));
        values_.push_back(Json::object(
            {{"container", container.empty() ? Json() : Json(container)}, {"sentence", sentence}}));
        if (count_ == sentences_max) console_.say("{}: …, and more", kind_);
    }
    [[nodiscard]] uint64_t count() const { return count_; }
    [[nodiscard]] Json value() const { return Json::array(values_); }

  private:
    const Console& console_;
    const char* kind_;
    uint64_t count_ = 0;
    std::vector<Json> values_;
};

std::string counted(uint64_t count, const char* one, const char* many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}
std::string problems_text(uint64_t count) {
    return count == 0 ? "no problem" : counted(count, "problem", "problems");
}

std::string contents_text(const pool::CheckedContainer& container) {
    const std::string objects =
        fmt::format("{}, {}, {}", counted(container.objects, "object", "objects"),
                    counted(container.akeys, "key", "keys"), human_bytes(container.bytes));
    if (container.is_retired) return "being removed, " + objects;
    if (!container.files) return objects;
    const fs::CheckedNames& files = *container.files;
    std::string text = fmt::format("{}{}, {}", files.is_encrypted ? "encrypted, " : "",
                                   counted(files.directories, "directory", "directories"),
                                   counted(files.files, "file", "files"));
    if (files.others > 0) text += ", " + counted(files.others, "other node", "other nodes");
    if (files.orphans > 0) text += fmt::format(", {} without a name", files.orphans);
    return fmt::format("{}, {}; {}", text, counted(files.names, "name", "names"), objects);
}

Json value_of(const pool::CheckedContainer& container) {
    Json files;
    if (container.files) {
        files = Json::object({{"directories", container.files->directories},
                              {"files", container.files->files},
                              {"others", container.files->others},
                              {"names", container.files->names},
                              {"without_name", container.files->orphans},
                              {"encrypted", container.files->is_encrypted}});
    }
    return Json::object({{"container", container.label},
                         {"being_removed", container.is_retired},
                         {"objects", container.objects},
                         {"keys", container.akeys},
                         {"bytes", container.bytes},
                         {"files", files},
                         {"problems", container.problems}});
}

}  // namespace

Task<Result<>> pool_check(CommandContext context, CheckOptions options) {
    ROS2S_CO_TRY_ASSIGN(const std::string directory,
                        pool_directory_of(options.directory, context.report));
    const Console& console = context.console;
    Sentences problems(console, "problem"), unjudged(console, "not judged");
    Progress blocks("checking", Progress::Unit::bytes, !console.json());
    Progress files("checking names", Progress::Unit::files, !console.json());
    pool::PoolCheckOptions wanted{.data = options.data};
    wanted.problem = [&](const std::string& container, const std::string& sentence) {
        problems.add(container, sentence);
    };
    wanted.unjudged = [&](const std::string& container, const std::string& sentence) {
        unjudged.add(container, sentence);
    };
    wanted.progress = [&](bool of_files, uint64_t done, uint64_t total) {
        (of_files ? files : blocks).update(done, total);
    };
    const auto checked = co_await pool::check_pool(context.call, context.environment, directory,
                                                   wanted, context.report);
    if (!checked) {
        if (checked.error().code == Code::corrupt) *context.failed_status = 1;
        co_return fail(checked.error());
    }
    console.say("pool '{}' in {}: {}, {} of {} in use, {} replayed from the journal", checked->name,
                directory, counted(checked->devices, "device", "devices"),
                human_bytes(checked->used_bytes), human_bytes(checked->total_bytes),
                counted(checked->replayed_groups, "group", "groups"));
    std::vector<Json> containers;
    for (const pool::CheckedContainer& container : checked->containers) {
        console.say("container '{}': {}: {}", container.label, contents_text(container),
                    problems_text(container.problems));
        containers.push_back(value_of(container));
    }
    console.answer(Json::object({{"pool", checked->name},
                                 {"directory", directory},
                                 {"devices", checked->devices},
                                 {"used_bytes", checked->used_bytes},
                                 {"total_bytes", checked->total_bytes},
                                 {"replayed_groups", checked->replayed_groups},
                                 {"containers", Json::array(containers)},
                                 {"problem_count", checked->problems},
                                 {"problems", problems.value()},
                                 {"not_judged", unjudged.value()}}));
    if (checked->problems > 0) {
        *context.failed_status = 1;
        co_return context.report.fail(Code::corrupt, "the pool '{}' in {} has {}", checked->name,
                                      directory, problems_text(checked->problems));
    }
    if (unjudged.count() > 0) {
        co_return context.report.fail(Code::unsupported,
                                      "the pool '{}' in {} is not judged as a whole", checked->name,
                                      directory);
    }
    co_return Result<>{};
}

}  // namespace ros2s::cli
