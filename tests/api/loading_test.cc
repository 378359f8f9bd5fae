// Which libraries libros2store loads: RocksDB and gRPC only if a URI needs them. If they cannot be
// loaded, the error is a sentence.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "forked.h"
#include "ros2store/ros2store.h"

namespace ros2s::tests {
namespace {

using testing::HasSubstr;

// Whether this process has a library whose file name begins so.
bool has(const std::string& library) {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) {
        if (line.contains("/" + library)) return true;
    }
    return false;
}

struct Directory {
    Directory() : path(testing::TempDir() + "loading.XXXXXX") {
        EXPECT_NE(mkdtemp(path.data()), nullptr);
    }
    ~Directory() { std::filesystem::remove_all(path); }
    Directory& operator=(Directory&&) = delete;
    std::string path;
};

std::string make_pool(const std::string& directory) {
    const std::string command = std::string(POOL_HELPER) + " make " + directory;
    EXPECT_EQ(std::system(command.c_str()), 0);
    return "ros2s+local:///pool/main?dir=" + directory;
}

// Of a server that has ended.
std::string make_socket(const std::string& directory) {
    const std::string path = directory + "/socket";
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int bound = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(bound, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    close(bound);
    return path;
}

// Loads the library, uses a container, with or without closing it, and ends after the library was
// closed, as a grandchild does.
[[noreturn]] void end_after_closing(const std::string& library, const std::string& uri,
                                    bool closes) {
    void* const alone = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (alone == nullptr) _exit(1);
    auto* const open = reinterpret_cast<decltype(&ros2s_open)>(dlsym(alone, "ros2s_open"));
    auto* const close = reinterpret_cast<decltype(&ros2s_close)>(dlsym(alone, "ros2s_close"));
    ros2s_fs* fs = nullptr;
    if (open(uri.c_str(), nullptr, &fs, nullptr, 0) != 0) _exit(2);
    if (closes && close(fs) != 0) _exit(3);
    if (dlclose(alone) != 0) _exit(4);
    exit(in_child([]() -> int { exit(7); }) == 7 ? 0 : 5);
}

// Functions that it registered would be called after it is gone. The first test, because this
// process must have loaded nothing.
TEST(LibraryLoading, ProcessEndsAfterLibraryWasClosed) {
    const Daemons pool(no_daemons);
    const Daemons daemons;
    const Directory directory;
    const std::string library = directory.path + "/libros2store.so.0";
    std::filesystem::copy_file(LIBRARY, library);
    std::filesystem::create_directory_symlink(
        std::filesystem::path(LIBRARY).parent_path() / "ros2store", directory.path + "/ros2store");
    for (const std::string& uri : {pool.uri(), daemons.uri("ros2s"), daemons.uri("ros2s+dpu")}) {
        for (int i = 0; i < turns(2); ++i) {
            ASSERT_EQ(in_child([&]() -> int { end_after_closing(library, uri, i % 2 == 0); }), 0)
                << uri << ", turn " << i;
        }
    }
}

// A single test, because a loaded library stays loaded.
TEST(LibraryLoading, EachUriLoadsOnlyWhatItNeeds) {
    const Directory directory;
    EXPECT_NE(ros2s_version(), 0U);
    ros2s_fs* fs = nullptr;
    ASSERT_EQ(ros2s_open("ros2s+local:///pool/main?dir=/nowhere", nullptr, &fs, nullptr, 0),
              -ENOENT);
    for (const char* each :
         {"librocksdb", "libgrpc", "libprotobuf", "libabsl", "libpmem", "libros2store-"}) {
        EXPECT_FALSE(has(each)) << each;
    }
#ifndef ROS2S_SANITIZED  // those builds link servers' code, too
    EXPECT_FALSE(has("libcrypto"));
#endif

    const std::string uri = make_pool(directory.path + "/pool");
    ASSERT_EQ(ros2s_open(uri.c_str(), nullptr, &fs, nullptr, 0), 0) << ros2s_last_error();
    EXPECT_EQ(ros2s_close(fs), 0);
    EXPECT_TRUE(has("librocksdb"));
    EXPECT_TRUE(has("libros2store-rocksdb"));
    EXPECT_FALSE(has("libgrpc"));
    EXPECT_FALSE(has("libprotobuf"));
    EXPECT_FALSE(has("libpmem"));

    // Keys are files: OpenSSL comes with the code that reads them.
    setenv("ROS2STORE_KEYS", directory.path.c_str(), 1);
    ASSERT_EQ(ros2s_open(uri.c_str(), nullptr, &fs, nullptr, 0), 0) << ros2s_last_error();
    EXPECT_EQ(ros2s_close(fs), 0);
    EXPECT_TRUE(has("libros2store-cipher"));
    EXPECT_TRUE(has("libcrypto"));
    unsetenv("ROS2STORE_KEYS");

    // The loaded code reports the missing certificates.
    setenv("ROS2STORE_CERTS", directory.path.c_str(), 1);
    const std::string server = "ros2s:///pool/main?socket=" + make_socket(directory.path);
    EXPECT_EQ(ros2s_open(server.c_str(), nullptr, &fs, nullptr, 0), -ENOENT);
    EXPECT_THAT(ros2s_last_error(), HasSubstr(directory.path + "/ca.crt"));
    EXPECT_TRUE(has("libgrpc"));
    EXPECT_TRUE(has("libros2store-grpc"));
}

TEST(LibraryLoading, MissingLibraryErrorNamesFileAndPackage) {
    // A libros2store without the libraries beside it.
    const Directory directory;
    const std::string uri = make_pool(directory.path + "/pool");
    const std::string library = directory.path + "/libros2store.so.0";
    std::filesystem::copy_file(LIBRARY, library);
    void* const alone = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(alone, nullptr) << dlerror();
    auto* const open = reinterpret_cast<decltype(&ros2s_open)>(dlsym(alone, "ros2s_open"));
    ros2s_fs* fs = nullptr;
    char error[1024];
    EXPECT_EQ(open(uri.c_str(), nullptr, &fs, error, sizeof error), -EOPNOTSUPP);
    EXPECT_THAT(error, HasSubstr("need " + directory.path + "/ros2store/libros2store-rocksdb-"));
    EXPECT_THAT(error, HasSubstr("install the package ros2store"));
    const std::string server = "ros2s:///pool/main?socket=" + make_socket(directory.path);
    EXPECT_EQ(open(server.c_str(), nullptr, &fs, error, sizeof error), -EOPNOTSUPP);
    EXPECT_THAT(error, HasSubstr("need " + directory.path + "/ros2store/libros2store-grpc-"));
}

}  // namespace
}  // namespace ros2s::tests
