// pool_helper: what tests need of another process, because a process that has used an embedded
// pool cannot fork one that does.
//
//     pool_helper make DIRECTORY        makes a pool of the least size, with the container "main"
//     pool_helper grow DIRECTORY BYTES KILLED_AT PLACE   adds a device file, and kills itself with
//                                       -9 at the KILLED_AT-th report of progress; 0: never. PLACE:
//                                       another directory for the file, or ""
//     pool_helper fill URI PATH BYTES   writes a file of that size
//     pool_helper report URI PATH       prints the path report of a file
//     pool_helper hold URI PROGRAM      opens it, prints "open", and keeps it until stdin ends;
//                                       then dies without closing, as a killed owner does
#include <fcntl.h>
#include <ros2store/ros2store.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ros2s/pool/pool_directory.h"
#include "ros2s/pool/pool_growth.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace {

int make(const char* directory) {
    using namespace ros2s;
    Report report;
    const auto reactor = OsReactor::create({}, report);
    ThreadPool blocking(2);
    const Call call;
    const pool::PoolCreation creation{.directory = directory, .bytes = pool::pool_bytes_min};
    if (reactor && (*reactor)->run(pool::create_pool(
                       call, {.reactor = **reactor, .blocking = blocking}, creation, report))) {
        return 0;
    }
    std::fprintf(stderr, "%s\n", report.text().c_str());
    return 1;
}

int grow(const char* directory, unsigned long long bytes, int killed_at, const char* place) {
    using namespace ros2s;
    Report report;
    const auto reactor = OsReactor::create({}, report);
    ThreadPool blocking(2);
    const Call call;
    const auto progress = [&killed_at](uint64_t, uint64_t) {
        if (--killed_at == 0) ::raise(SIGKILL);
    };
    if (reactor &&
        (*reactor)->run(pool::grow_pool(call, {.reactor = **reactor, .blocking = blocking},
                                        {.directory = directory,
                                         .bytes = bytes,
                                         .device_directory = place,
                                         .progress = progress},
                                        report))) {
        return 0;
    }
    std::fprintf(stderr, "%s\n", report.text().c_str());
    return 1;
}

int hold(const char* uri, const char* program) {
    ros2s_fs* fs = nullptr;
    char error[512];
    const ros2s_open_options options{sizeof options, 0, program};
    if (ros2s_open(uri, &options, &fs, error, sizeof error) != 0) {
        std::fprintf(stderr, "%s\n", error);
        return 1;
    }
    std::puts("open");
    std::fflush(stdout);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    ::_exit(0);
}

int fill(const char* uri, const char* path, unsigned long long bytes) {
    ros2s_fs* fs = nullptr;
    ros2s_file* file = nullptr;
    int rc = ros2s_open(uri, nullptr, &fs, nullptr, 0);
    if (rc == 0) rc = ros2s_file_open(fs, path, O_WRONLY | O_CREAT, 0644, &file);
    const std::vector<char> piece(1 << 20, 'x');
    for (unsigned long long at = 0; rc >= 0 && at < bytes; at += piece.size()) {
        const auto count = std::min<unsigned long long>(piece.size(), bytes - at);
        rc = static_cast<int>(ros2s_pwrite(file, piece.data(), count, at));
    }
    if (rc >= 0) rc = ros2s_file_close(file);
    if (rc >= 0) rc = ros2s_close(fs);
    if (rc < 0) std::fprintf(stderr, "%s\n", ros2s_last_error());
    return rc < 0 ? 1 : 0;
}

int report(const char* uri, const char* path) {
    ros2s_fs* fs = nullptr;
    ros2s_file* file = nullptr;
    char text[16384];
    int rc = ros2s_open(uri, nullptr, &fs, nullptr, 0);
    if (rc == 0) rc = ros2s_file_open(fs, path, O_RDONLY, 0, &file);
    if (rc == 0) rc = ros2s_path_report(file, ROS2S_TEXT, text, sizeof text) < 0 ? -1 : 0;
    if (rc == 0) rc = ros2s_file_close(file);
    if (rc == 0) rc = ros2s_close(fs);
    std::fprintf(rc == 0 ? stdout : stderr, "%s\n", rc == 0 ? text : ros2s_last_error());
    return rc == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
    if (count == 3 && std::strcmp(arguments[1], "make") == 0) return make(arguments[2]);
    if (count == 6 && std::strcmp(arguments[1], "grow") == 0) {
        return grow(arguments[2], std::strtoull(arguments[3], nullptr, 10), std::atoi(arguments[4]),
                    arguments[5]);
    }
    if (count == 4 && std::strcmp(arguments[1], "hold") == 0) {
        return hold(arguments[2], arguments[3]);
    }
    if (count == 5 && std::strcmp(arguments[1], "fill") == 0) {
        return fill(arguments[2], arguments[3], std::strtoull(arguments[4], nullptr, 10));
    }
    if (count == 4 && std::strcmp(arguments[1], "report") == 0) {
        return report(arguments[2], arguments[3]);
    }
    std::fprintf(stderr,
                 "usage: pool_helper make DIRECTORY | grow DIRECTORY BYTES KILLED_AT PLACE | fill "
                 "URI PATH BYTES | report URI PATH | hold URI PROGRAM\n");
    return 2;
}
