#include "work_kinds.h"

#include <map>
#include <set>

#include "ros2s/fs/path_walk.h"

namespace ros2s {
namespace {

using namespace object;

constexpr fs::OpenFlags read_write{.read = true, .write = true};
const Call call;

// ---- appends --------------------------------------------------------------------------------

std::string record(uint64_t client, uint64_t round) {
    return fmt::format("<{}:{}:{}>\n", client, round, std::string(client * 100 + round * 7, 'a'));
}

Task<> make_log(fs::FileSystem& files, ObjectStore&, ContainerId) {
    const auto made = co_await files.create(call, fs::root_node, "log", 0644, read_write, {});
    ROS2S_CHECK(made);
    ROS2S_CHECK(co_await files.close(call, made->handle));
}

Task<> append(Part& part) {
    const auto node = co_await fs::resolve(part.files, call, "/log");
    if (!node) co_return part.problem("the log is not there");
    const auto log = co_await part.files.open(call, node->node, {.write = true, .append = true});
    if (!log) co_return part.problem("the log does not open");
    for (uint64_t round = 0; round < rounds; ++round) {
        const std::string text = record(part.number, round);
        const auto written =
            co_await part.files.pwrite(call, log->handle, fs::Window::local(as_bytes(text)), 0);
        if (!written) part.problem("append {}: {}", round, describe(written.error()));
    }
    (void)co_await part.files.close(call, log->handle);
}

Task<> judge_log(fs::FileSystem& files, ObjectStore&, ContainerId,
                 std::vector<std::string>& problems) {
    const auto node = co_await fs::resolve(files, call, "/log");
    const auto log = co_await files.open(call, node->node, {});
    std::string text(4 << 20, '?');
    const auto got = co_await files.pread(
        call, log->handle, fs::Window::local(std::as_writable_bytes(std::span(text))), 0);
    text.resize(got.value_or(0));
    (void)co_await files.close(call, log->handle);
    std::map<uint64_t, uint64_t> next;  // round, by client
    size_t at = 0;
    while (at < text.size()) {
        bool known = false;
        for (uint64_t client = 0; client < hosts * tasks_per_host && !known; ++client) {
            const std::string expected = record(client, next[client]);
            if (text.compare(at, expected.size(), expected) != 0) continue;
            known = true;
            ++next[client];
            at += expected.size();
        }
        if (known) continue;
        problems.push_back(fmt::format("at {} of the log is nothing that should come there: {}", at,
                                       text.substr(at, 20)));
        co_return;
    }
    for (uint64_t client = 0; client < hosts * tasks_per_host; ++client) {
        if (next[client] == rounds) continue;
        problems.push_back(fmt::format("{} appends of client {}", next[client], client));
    }
}

// ---- exclusive creation, renames ------------------------------------------------------------

std::string name_of(std::string_view what, uint64_t client, uint64_t round) {
    return fmt::format("{}-{}-{}", what, client, round);
}

Task<> create(Part& part) {
    for (uint64_t round = 0; round < rounds; ++round) {
        const auto made =
            co_await part.files.create(call, fs::root_node, name_of("file", part.number, round),
                                       0644, {.read = true, .write = true, .exclusive = true}, {});
        if (!made) {
            part.problem("creation {}: {}", round, describe(made.error()));
            continue;
        }
        (void)co_await part.files.close(call, made->handle);
        const auto directory = co_await part.files.mkdir(
            call, fs::root_node, name_of("directory", part.number, round), 0755, {});
        if (!directory) part.problem("mkdir {}: {}", round, describe(directory.error()));
    }
}

Task<std::set<std::string>> names_in(fs::FileSystem& files) {
    std::set<std::string> names;
    const auto root = co_await files.open(call, fs::root_node, {});
    uint64_t cookie = 0;
    while (true) {
        const auto page = co_await files.readdir(call, root->handle, cookie, 100);
        if (!page || page->empty()) break;
        for (const auto& entry : *page) names.insert(entry.name);
        cookie = page->back().cookie;
    }
    (void)co_await files.close(call, root->handle);
    co_return names;
}

Task<> expect_names(fs::FileSystem& files, std::vector<std::string_view> kinds,
                    std::vector<std::string>& problems) {
    std::set<std::string> names = co_await names_in(files);
    for (uint64_t client = 0; client < hosts * tasks_per_host; ++client) {
        for (uint64_t round = 0; round < rounds; ++round) {
            for (const std::string_view kind : kinds) {
                const std::string name = name_of(kind, client, round);
                if (names.erase(name) == 0) problems.push_back(name + " is not there");
            }
        }
    }
    for (const std::string& name : names) problems.push_back(name + " should not be there");
}

Task<> judge_names(fs::FileSystem& files, ObjectStore&, ContainerId,
                   std::vector<std::string>& problems) {
    co_await expect_names(files, {"file", "directory"}, problems);
}

Task<> rename(Part& part) {
    for (uint64_t round = 0; round < rounds; ++round) {
        const std::string from = name_of("from", part.number, round);
        const auto made =
            co_await part.files.create(call, fs::root_node, from, 0644, read_write, {});
        if (!made) {
            part.problem("creation {}: {}", round, describe(made.error()));
            continue;
        }
        (void)co_await part.files.close(call, made->handle);
        const std::string middle = name_of("middle", part.number, round);
        const std::string to = name_of("to", part.number, round);
        for (const auto& [old_name, new_name] : {std::pair{from, middle}, std::pair{middle, to}}) {
            const auto renamed = co_await part.files.rename(
                call, fs::root_node, old_name, fs::root_node, new_name, {.no_replace = true});
            if (!renamed) part.problem("rename {}: {}", round, describe(renamed.error()));
        }
    }
}

Task<> judge_renames(fs::FileSystem& files, ObjectStore&, ContainerId,
                     std::vector<std::string>& problems) {
    co_await expect_names(files, {"to"}, problems);
}

// ---- files without a name -------------------------------------------------------------------

Task<> use_unlinked(Part& part) {
    const std::string name = name_of("unlinked", part.number, 0);
    const fs::OpenFlags flags{.write = true, .append = true, .exclusive = true};
    const auto file = co_await part.files.create(call, fs::root_node, name, 0600, flags, {});
    if (!file) co_return part.problem("creation: {}", describe(file.error()));
    const auto removed = co_await part.files.unlink(call, fs::root_node, name);
    if (!removed) part.problem("unlink: {}", describe(removed.error()));
    std::string expected;
    for (uint64_t round = 0; round < rounds; ++round) {
        const std::string text = record(part.number, round);
        expected += text;
        const auto written =
            co_await part.files.pwrite(call, file->handle, fs::Window::local(as_bytes(text)), 0);
        if (!written) part.problem("append {}: {}", round, describe(written.error()));
    }
    std::string found(expected.size() + 1, '?');
    const auto got = co_await part.files.pread(
        call, file->handle, fs::Window::local(std::as_writable_bytes(std::span(found))), 0);
    found.resize(got.value_or(0));
    if (found != expected) part.problem("a file without a name has {} bytes", found.size());
    (void)co_await part.files.close(call, file->handle);
}

Task<> judge_unlinked(fs::FileSystem& files, ObjectStore&, ContainerId,
                      std::vector<std::string>& problems) {
    co_await expect_names(files, {}, problems);
}

}  // namespace

Task<> make_nothing(fs::FileSystem&, ObjectStore&, ContainerId) { co_return; }

const Kind appends{make_log, append, judge_log};
const Kind creations{make_nothing, create, judge_names};
const Kind renames{make_nothing, rename, judge_renames};
const Kind unlinked_files{make_nothing, use_unlinked, judge_unlinked};

}  // namespace ros2s
