// A full pool behind a DPU. A writer gets one clear error. Everything else goes on, and removing
// files makes room again.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>

#include "dpu_process.h"
#include "ros2s/base/random.h"
#include "ros2store/ros2store.h"

namespace ros2s::tests {
namespace {

using testing::HasSubstr;
constexpr size_t mib = size_t{1} << 20;

std::string noise(size_t size, uint64_t seed) {
    Random random(seed);
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.next());
    return bytes;
}

// A container that is reached through its DPU.
class Container {
  public:
    explicit Container(const std::string& uri) {
        char error[1024] = {};
        EXPECT_EQ(ros2s_open(uri.c_str(), nullptr, &fs_, error, sizeof error), 0) << error;
    }
    Container& operator=(Container&&) = delete;
    ~Container() {
        if (fs_ != nullptr) EXPECT_EQ(ros2s_close(fs_), 0) << ros2s_last_error();
    }
    // 0, or the first error.
    int write(const std::string& name, const std::string& content, size_t copies = 1) {
        ros2s_file* file = nullptr;
        const int opened = ros2s_file_open(fs_, name.c_str(), O_RDWR | O_CREAT, 0644, &file);
        if (opened != 0) return opened;
        int result = 0;
        for (size_t i = 0; i < copies && result == 0; ++i) {
            const auto size = static_cast<ssize_t>(content.size());
            const ssize_t written = ros2s_pwrite(file, content.data(), content.size(), size * i);
            if (written != size) result = written < 0 ? static_cast<int>(written) : -EIO;
        }
        EXPECT_EQ(ros2s_file_close(file), 0) << ros2s_last_error();
        return result;
    }
    std::string read(const std::string& name, size_t size) {
        ros2s_file* file = nullptr;
        EXPECT_EQ(ros2s_file_open(fs_, name.c_str(), O_RDONLY, 0, &file), 0) << ros2s_last_error();
        if (file == nullptr) return {};
        std::string content(size, '\0');
        const ssize_t got = ros2s_pread(file, content.data(), size, 0);
        EXPECT_GE(got, 0) << ros2s_last_error();
        content.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
        EXPECT_EQ(ros2s_file_close(file), 0);
        return content;
    }
    // The result of pwrite().
    ssize_t append(const std::string& name, const std::string& content) {
        ros2s_file* file = nullptr;
        EXPECT_EQ(ros2s_file_open(fs_, name.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644, &file), 0)
            << ros2s_last_error();
        if (file == nullptr) return -EIO;
        const ssize_t written = ros2s_pwrite(file, content.data(), content.size(), 0);
        EXPECT_EQ(ros2s_file_close(file), 0) << ros2s_last_error();
        return written;
    }
    int truncate(const std::string& name, uint64_t size) {
        return ros2s_truncate(fs_, name.c_str(), size);
    }
    int unlink(const std::string& name) { return ros2s_unlink(fs_, name.c_str()); }

  private:
    ros2s_fs* fs_ = nullptr;
};

class FullPool : public testing::Test {
  protected:
    [[nodiscard]] std::string uri(const std::string& container,
                                  const std::string& path = {}) const {
        return fmt::format("ros2s+dpu:///pool/{}{}?dir={}", container, path,
                           engine.pool_directory());
    }
    int cli(const std::string& arguments, std::string& said) const {
        return run_program(fmt::format("'{}' {}", PROGRAM_CLI, arguments), said);
    }
    // Each append adds the number of bytes that it returns, until the pool is full. Later appends
    // add nothing.
    static void append_until_full(Container& container, const std::string& name) {
        std::string content;
        ssize_t written = 0;
        for (uint64_t seed = 10; written >= 0; ++seed) {
            const std::string record = noise(300'000, seed);
            written = container.append(name, record);
            if (written > 0) content += record.substr(0, static_cast<size_t>(written));
            ASSERT_EQ(container.read(name, content.size() + mib), content) << written;
        }
        EXPECT_EQ(written, -ENOSPC) << ros2s_last_error();
    }
    // Writes until not even one block fits.
    void fill(Container& container, const std::string& bytes) {
        for (const size_t size : {mib, size_t{64} << 10, size_t{4} << 10}) {
            const std::string name = fmt::format("filler-{}", size);
            ASSERT_EQ(container.write(name, bytes.substr(0, size), 4096), -ENOSPC)
                << ros2s_last_error();
            if (size == mib) append_until_full(container, "log");
        }
    }
    EngineProcess engine;
    DpuProcess dpu{engine, "shm"};
};

TEST_F(FullPool, WritesAreRefusedUntilFilesAreRemoved) {
    ASSERT_TRUE(engine.start() && dpu.start());
    std::string said;
    ASSERT_EQ(cli(fmt::format("container create '{}'", uri("second")), said), 0) << said;
    const std::string bytes = noise(mib, 1), kept = noise(mib, 2), file = engine.path("file");
    std::ofstream(file, std::ios::binary) << bytes;
    Container main(uri("main")), second(uri("second"));
    for (Container* each : {&main, &second}) ASSERT_EQ(each->write("kept", kept), 0);
    fill(main, bytes);

    // One line: what failed, why, and the remedy.
    ASSERT_EQ(cli(fmt::format("cp {} '{}'", file, uri("second", "/copy")), said), 1) << said;
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
    for (const char* part :
         {"ros2store: ", "/copy", "the pool is full", "ros2store rm", "pool grow"}) {
        EXPECT_THAT(said, HasSubstr(part));
    }
    EXPECT_EQ(second.write("more", bytes), -ENOSPC) << "containers share the pool's space";
    // Reads go on, over existing connections and new ones. No session is lost.
    for (Container* each : {&main, &second}) EXPECT_EQ(each->read("kept", mib), kept);
    EXPECT_EQ(cli(fmt::format("cp '{}' {}.back", uri("second", "/kept"), file), said), 0) << said;
    EXPECT_EQ(cli(fmt::format("ls '{}'", uri("main")), said), 0) << said;
    EXPECT_THAT(said, HasSubstr("kept"));
    // Overwriting needs no space, and neither does truncation within a block.
    const std::string over = noise(mib, 3);
    EXPECT_EQ(second.write("kept", over), 0) << ros2s_last_error();
    EXPECT_EQ(second.truncate("kept", mib - 5), 0) << ros2s_last_error();
    EXPECT_EQ(second.read("kept", mib), over.substr(0, mib - 5));
    const std::string counters = dpu.metrics();
    for (const char* end : {"violation", "over_budget", "failed"}) {
        EXPECT_NE(counters.find(fmt::format("ros2store_fabric_ended_{}_total{{provider=\"shm\","
                                            "tenant=\"CN=client\"}} 0\n",
                                            end)),
                  counters.npos)
            << end;
    }

    // Truncation by whole blocks needs no space either.
    EXPECT_EQ(second.truncate("kept", 4096), 0) << ros2s_last_error();
    EXPECT_EQ(second.read("kept", mib), over.substr(0, 4096));
    // Removing needs no space. For half a minute after its start a DPU keeps the contents of files
    // that hosts remove (0521), so most files are removed by a direct client. The space can be used
    // once the removal is durable.
    EXPECT_EQ(main.unlink("filler-4096"), 0) << ros2s_last_error();
    const std::string filler =
        fmt::format("ros2s:///pool/main/filler-{}?dir={}", mib, engine.pool_directory());
    EXPECT_EQ(cli(fmt::format("rm '{}'", filler), said), 0) << said;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    int written = -ENOSPC;
    while (written == -ENOSPC && std::chrono::steady_clock::now() < until) {
        written = second.write("more", bytes);
        if (written != 0) ::usleep(10'000);
    }
    EXPECT_EQ(written, 0) << ros2s_last_error();
    EXPECT_EQ(second.read("more", mib), bytes);
    EXPECT_EQ(main.write("again", bytes, 16), 0) << ros2s_last_error();
    EXPECT_EQ(cli(fmt::format("cp {} '{}'", file, uri("second", "/copy")), said), 0) << said;
    EXPECT_EQ(second.read("copy", mib), bytes);
    EXPECT_EQ(main.read("kept", mib), kept);
}

}  // namespace
}  // namespace ros2s::tests
