// Hosts of a DPU: this process.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ros2s/connection/host_files.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {

using connection::HostFiles;

// Null: it was refused, and the report says why.
inline std::unique_ptr<HostFiles> open_host(OsReactor& reactor,
                                            const connection::HostOptions& options,
                                            Report& report) {
    auto opened = run_blocking(reactor, [&] { return HostFiles::open(reactor, options, report); });
    return opened ? std::move(*opened) : nullptr;
}
inline void close_host(OsReactor& reactor, std::unique_ptr<HostFiles>& host) {
    (void)run_blocking(reactor, [&] { return host->close(); });
    host.reset();
}

inline std::string five_megabytes() {
    std::string content(5'000'003, '\0');
    for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 >> 3);
    return content;
}

struct FileOfBoth {
    fs::Attributes attributes;
    std::string path;  // its path report, where it is read
};

// A host writes directory/file, and another one reads it at once.
inline Task<FileOfBoth> write_and_read(fs::FileSystem& files, fs::FileSystem& other,
                                       std::string content, fs::Owner owner = {}) {
    const Call call;
    const auto made = co_await files.mkdir(call, fs::root_node, "directory", 0755, {});
    EXPECT_TRUE(made);
    const auto opened =
        co_await files.create(call, made->node, "file", 0640, {.write = true}, owner);
    EXPECT_TRUE(opened);
    EXPECT_EQ(co_await files.pwrite(call, opened->handle, fs::Window::local(as_bytes(content)), 0),
              Result<uint64_t>(content.size()));
    EXPECT_TRUE(co_await files.fsync(call, opened->handle));
    EXPECT_TRUE(co_await files.close(call, opened->handle));
    const auto directory = co_await other.lookup(call, fs::root_node, "directory");
    EXPECT_TRUE(directory);
    const auto found = co_await other.lookup(call, directory->node, "file");
    EXPECT_TRUE(found);
    EXPECT_EQ(found->mode, S_IFREG | 0640U);
    const auto there = co_await other.open(call, found->node, {});
    EXPECT_TRUE(there);
    std::string read(content.size() + 1, '\0');
    EXPECT_EQ(co_await other.pread(call, there->handle,
                                   fs::Window::local(std::as_writable_bytes(std::span(read))), 0),
              Result<uint64_t>(content.size()));
    read.resize(content.size());
    EXPECT_TRUE(read == content);
    const auto path = other.path_report(there->handle);
    EXPECT_TRUE(path);
    EXPECT_TRUE(co_await other.close(call, there->handle));
    co_return FileOfBoth{*found, path ? path->path : std::string()};
}

}  // namespace ros2s::tests
