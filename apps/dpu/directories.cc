#include "directories.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "ros2s/foreign/open_local_directory.h"
#include "ros2s/object/object_store.h"
#include "ros2s/session/mounts.h"

namespace ros2s::dpud {
namespace {

// A host reaches only this directory. It owns its files as far as the kernel permits, and gets no
// power over this machine, whatever user this process runs as. Nodes that hosts only looked up have
// a quarter of the process's descriptors, in all directories together. Mounts bound the nodes that
// hosts have looked up; a directory above many of them is one node more.
foreign::LocalDirectoryOptions for_hosts(size_t directories, ThreadTurns& turns) {
    rlimit descriptors{};
    ::getrlimit(RLIMIT_NOFILE, &descriptors);
    return {.enters_mounts = false,
            .keeps_what_it_may_not_give = true,
            .gives_no_power = true,
            .descriptors_max = descriptors.rlim_cur / 4 / std::max<size_t>(directories, 1),
            .nodes_max = 2 * session::MountBounds().all.nodes_max,
            .turns = &turns};
}

std::pair<std::string, std::string> split(const std::string& name) {
    const size_t slash = name.find('/');
    if (slash == name.npos) return {};
    return {name.substr(0, slash), name.substr(slash + 1)};
}

}  // namespace

Result<> check(const DirectorySettings& directories, const std::vector<std::string>& pools,
               std::string_view where, Report& report) {
    for (const auto& [name, path] : directories) {
        const auto no = [&](std::string_view why) {
            return report.fail(Code::invalid, "{}: directories: '{}' {}", where, name, why);
        };
        const auto [pool, container] = split(name);
        if (!object::is_valid_label(pool) || !object::is_valid_label(container)) {
            return no(
                "is not of the form POOL/CONTAINER: two names of A-Z a-z 0-9 . _ - with a "
                "slash between them");
        }
        if (std::ranges::find(pools, pool) != pools.end()) {
            return no(
                fmt::format("is in the pool '{}', which does not consist of directories ('pools'); "
                            "choose another name",
                            pool));
        }
        if (!path.starts_with('/')) {
            return no(fmt::format("has the path '{}'; give a path that begins with /", path));
        }
    }
    return {};
}

Task<Result<>> Directories::add(std::string name, std::string path, const Log& log,
                                Report& report) {
    auto kind =
        co_await threads_.pool.run(reactor_, [&path] { return foreign::file_system_kind(path); });
    Report why;
    auto opened = co_await foreign::open_local_directory(path, reactor_, threads_.pool, why,
                                                         for_hosts(1, threads_.turns));
    if (!opened) {
        co_return report.fail(opened.error(), "directories: '{}': {}", name, why.text());
    }
    co_await (*opened)->close_all();
    Directory directory{.path = path, .kind = kind ? *kind : "an unknown file system"};
    log.info("the directory '{}': {} on {}", name, path, directory.kind);
    if (::geteuid() != 0) {
        log.info(
            "'{}': files that hosts create there belong to user {}, as which this process runs, if "
            "it may not give them away",
            name, ::geteuid());
    }
    directories_.emplace(split(name), std::move(directory));
    co_return Result<>{};
}

std::vector<std::string> Directories::pools() const {
    std::vector<std::string> pools;
    for (const auto& [name, directory] : directories_) {
        if (pools.empty() || pools.back() != name.first) pools.push_back(name.first);
    }
    return pools;
}

std::vector<std::string> Directories::containers(std::string_view pool) const {
    std::vector<std::string> containers;
    for (const auto& [name, directory] : directories_) {
        if (name.first == pool) containers.push_back(name.second);
    }
    return containers;
}

Task<Result<std::unique_ptr<fs::FileSystem>>> Directories::open(Call call, std::string pool,
                                                                std::string container,
                                                                Report& report) {
    const auto found = directories_.find({pool, container});
    if (found == directories_.end()) {
        co_return report.fail(Code::not_found,
                              "the pool '{}' has no container '{}'; list the pool's containers",
                              pool, container);
    }
    co_return co_await foreign::open_local_directory(
        found->second.path, reactor_, threads_.pool, report,
        for_hosts(directories_.size(), threads_.turns), std::move(call));
}

std::string Directories::storage(const std::string& pool, const std::string& container) const {
    const auto found = directories_.find({pool, container});
    if (found == directories_.end()) return {};
    return fmt::format(
        "which keeps {}/{} in a directory on {}: durable only after fsync, without checksums "
        "on the media",
        pool, container, found->second.kind);
}

}  // namespace ros2s::dpud
