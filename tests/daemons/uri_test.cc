// libros2store in front of real daemons, with all three kinds of URI: one file can be reached in
// several ways, and each way that does not exist gives one clear error.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dpu_process.h"
#include "ros2store/ros2store.h"

namespace ros2s::tests {
namespace {

using testing::HasSubstr;
using testing::Not;

class Opened {
  public:
    explicit Opened(const std::string& uri) {
        std::array<char, 1024> error{};
        result = ros2s_open(uri.c_str(), nullptr, &fs, error.data(), error.size());
        sentence = error.data();
    }
    ~Opened() {
        if (fs != nullptr) EXPECT_EQ(ros2s_close(fs), 0) << ros2s_last_error();
    }
    Opened& operator=(Opened&&) = delete;

    ros2s_fs* fs = nullptr;
    int result = 0;
    std::string sentence;
};

void write_file(ros2s_fs* fs, const std::string& name, const std::string& content) {
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_file_open(fs, name.c_str(), O_RDWR | O_CREAT, 0644, &file), 0)
        << ros2s_last_error();
    EXPECT_EQ(ros2s_pwrite(file, content.data(), content.size(), 0),
              static_cast<ssize_t>(content.size()))
        << ros2s_last_error();
    EXPECT_EQ(ros2s_file_close(file), 0);
}

struct Content {
    std::string bytes;
    std::string path;  // the report of the way that it took
};
Content read_file(ros2s_fs* fs, const std::string& name) {
    Content found;
    ros2s_file* file = nullptr;
    EXPECT_EQ(ros2s_file_open(fs, name.c_str(), O_RDONLY, 0, &file), 0) << ros2s_last_error();
    if (file == nullptr) return found;
    std::array<char, 64> bytes{};
    const ssize_t got = ros2s_pread(file, bytes.data(), bytes.size(), 0);
    EXPECT_GE(got, 0) << ros2s_last_error();
    found.bytes.assign(bytes.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
    std::array<char, 16384> report{};
    EXPECT_GT(ros2s_path_report(file, ROS2S_TEXT, report.data(), report.size()), 0);
    found.path = report.data();
    EXPECT_EQ(ros2s_file_close(file), 0);
    return found;
}

class NetworkUri : public testing::Test {
  protected:
    NetworkUri() {
        engine.listen_on("ofi+tcp;ofi_rxm");
        engine.write_settings();
    }
    [[nodiscard]] std::string uri(const std::string& scheme,
                                  const std::string& further = {}) const {
        return fmt::format("{}:///pool/main?dir={}{}", scheme, engine.pool_directory(), further);
    }
    EngineProcess engine;
    DpuProcess dpu{engine, "shm"};
};

TEST_F(NetworkUri, AllUrisReachTheSameFiles) {
    ASSERT_TRUE(engine.start() && dpu.start());
    struct Way {
        std::string uri, path;
    };
    const std::string data = engine.places().engine_data;
    const std::array<Way, 5> ways{
        {{uri("ros2s"), fmt::format("shm to {}, engine, ", data)},
         {uri("ros2s", "&provider=ucx+tcp"), "ucx+tcp to 127.0.0.1:"},
         {uri("ros2s", "&provider=ofi+tcp%3Bofi_rxm"), "ofi+tcp;ofi_rxm to 127.0.0.1:"},
         {uri("ros2s+dpu"), "host link over shm to the DPU at " + engine.places().dpu_data},
         {uri("ros2s+local"), "ros2store-engine), which has the pool open: shm to "}}};
    int written = 0;
    for (const Way& way : ways) {
        const Opened writer(way.uri);
        ASSERT_EQ(writer.result, 0) << way.uri << ": " << writer.sentence;
        const std::string content = fmt::format("written as {}", written++);
        write_file(writer.fs, "file", content);
        for (const Way& other : ways) {
            const Opened reader(other.uri);
            ASSERT_EQ(reader.result, 0) << other.uri << ": " << reader.sentence;
            const Content found = read_file(reader.fs, "file");
            EXPECT_EQ(found.bytes, content) << way.uri << " and " << other.uri;
            EXPECT_THAT(found.path, HasSubstr(other.path));
            EXPECT_THAT(found.path, HasSubstr("ros2store_channel_requests_total"));
            EXPECT_THAT(found.path, HasSubstr("engine, "));
            EXPECT_THAT(found.path, Not(HasSubstr("embedded")));
        }
    }
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    const Opened embedded(uri("ros2s+local"));
    ASSERT_EQ(embedded.result, 0) << embedded.sentence;
    EXPECT_EQ(read_file(embedded.fs, "file").bytes, fmt::format("written as {}", written - 1));
}

// The rest of the buffer is undefined, but programs rely on what they put there: it may become
// zero, not bytes of the read before, which are still in the memory between the processes.
TEST_F(NetworkUri, ShortReadReturnsNoBytesOfTheLastRead) {
    ASSERT_TRUE(engine.start() && dpu.start());
    const std::string content(200'000, 'c');
    for (const std::string& way :
         {uri("ros2s"), uri("ros2s", "&provider=ucx+tcp"),
          uri("ros2s", "&provider=ofi+tcp%3Bofi_rxm"), uri("ros2s+dpu"), uri("ros2s+local")}) {
        const Opened opened(way);
        ASSERT_EQ(opened.result, 0) << way << ": " << opened.sentence;
        write_file(opened.fs, "file", content);
        ros2s_file* file = nullptr;
        ASSERT_EQ(ros2s_file_open(opened.fs, "file", O_RDONLY, 0, &file), 0) << ros2s_last_error();
        std::string into(content.size(), '?');
        EXPECT_EQ(ros2s_pread(file, into.data(), into.size(), 0),
                  static_cast<ssize_t>(content.size()));
        EXPECT_TRUE(into == content) << way;
        into.assign(content.size(), '?');
        EXPECT_EQ(ros2s_pread(file, into.data(), into.size(), 150'000), 50'000);
        EXPECT_EQ(into.find('c', 50'000), std::string::npos) << way;
        EXPECT_EQ(ros2s_file_close(file), 0);
    }
}

TEST_F(NetworkUri, SocketAndEnvironmentCertificatesWork) {
    ASSERT_TRUE(engine.start());
    const std::string socket = "ros2s:///pool/main?socket=" + engine.places().engine_control;
    ::setenv("ROS2STORE_CERTS", engine.places().storage_certs.c_str(), 1);
    {
        const Opened right(socket);
        EXPECT_EQ(right.result, 0) << right.sentence;
        // The path of the URI selects a directory below the root.
        ASSERT_EQ(ros2s_mkdir(right.fs, "below", 0755), 0) << ros2s_last_error();
        const Opened below("ros2s:///pool/main/below?socket=" + engine.places().engine_control);
        EXPECT_EQ(below.result, 0) << below.sentence;
    }
    ::setenv("ROS2STORE_CERTS", "/nowhere", 1);
    const Opened wrong(socket);
    EXPECT_EQ(wrong.result, -ENOENT);
    EXPECT_THAT(wrong.sentence, HasSubstr("/nowhere/ca.crt"));
    ::unsetenv("ROS2STORE_CERTS");
}

TEST_F(NetworkUri, InvalidUriIsExplained) {
    ASSERT_TRUE(engine.start());
    struct Bad {
        std::string uri;
        int error;
        std::string sentence;
    };
    const std::array<Bad, 8> bad{{
        {"ros2s:///pool/main", -EINVAL, "names no server: write its host and port"},
        {"ros2s://host/pool/main?dir=/x", -EINVAL, "names more than one server"},
        {"ros2s+dpu:///pool/main?dir=" + engine.pool_directory(), -ENOENT,
         "no DPU daemon of " + engine.pool_directory() + " is running"},
        {"ros2s:///pool/main?dir=/nowhere", -ENOENT, "`ros2store up /nowhere` makes one"},
        {uri("ros2s", "&provider=ucx+rc"), -EOPNOTSUPP, "ucx+rc"},
        {fmt::format("ros2s:///other/main?dir={}", engine.pool_directory()), -EPERM, "'other'"},
        {fmt::format("ros2s:///pool/other?dir={}", engine.pool_directory()), -ENOENT,
         "the pool 'pool' has no container 'other' that this client may use; it may use: main"},
        {uri("ros2s", "&provider=carrier-pigeon"), -EOPNOTSUPP, "carrier-pigeon"},
    }};
    for (const Bad& each : bad) {
        const Opened opened(each.uri);
        EXPECT_EQ(opened.result, each.error) << each.uri << ": " << opened.sentence;
        EXPECT_THAT(opened.sentence, HasSubstr(each.sentence)) << each.uri;
    }
    const Opened good(uri("ros2s"));
    EXPECT_EQ(good.result, 0) << good.sentence;
}

// Returns when all threads of the process have stopped.
void stop(int pid) {
    ASSERT_EQ(::kill(pid, SIGSTOP), 0);
    const auto is_stopped = [pid] {
        std::ifstream stat(fmt::format("/proc/{}/stat", pid));
        std::string text;
        std::getline(stat, text);
        return text.substr(text.rfind(')') + 1).starts_with(" T");
    };
    for (int i = 0; i < 1000 && !is_stopped(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(is_stopped());
}

// Reads the file while the process is stopped, and again when it runs.
void read_from_a_stopped_process(const std::string& uri, int pid,
                                 const std::vector<char>& content) {
    const Opened program(uri);
    ASSERT_EQ(program.result, 0) << program.sentence;
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_file_open(program.fs, "file", O_RDONLY, 0, &file), 0) << ros2s_last_error();
    std::vector<char> memory(content.size());
    stop(pid);
    EXPECT_EQ(ros2s_pread(file, memory.data(), memory.size(), 0), -ETIMEDOUT);
    EXPECT_THAT(ros2s_last_error(), HasSubstr("the server did not reply within 2 s"));
    // The memory is the program's again, whatever the server then does.
    const std::vector<char> own(memory.size(), 'y');
    memory = own;
    EXPECT_EQ(::kill(pid, SIGCONT), 0);
    std::vector<char> found(content.size());
    ssize_t got = -ETIMEDOUT;
    for (int tries = 0; got == -ETIMEDOUT && tries < 30; ++tries) {
        got = ros2s_pread(file, found.data(), found.size(), 0);
    }
    EXPECT_EQ(got, static_cast<ssize_t>(found.size())) << ros2s_last_error();
    EXPECT_TRUE(found == content);
    EXPECT_TRUE(memory == own);
    EXPECT_EQ(ros2s_file_close(file), 0) << ros2s_last_error();
}

// Small and large payload arrive by different ways.
TEST_F(NetworkUri, TimeoutEndsCallsToHangingServer) {
    ASSERT_TRUE(engine.start() && dpu.start());
    for (const size_t bytes : {size_t{4096}, size_t{1} << 20}) {
        const std::vector<char> content(bytes, 'x');
        {
            const Opened writer(uri("ros2s"));
            ASSERT_EQ(writer.result, 0) << writer.sentence;
            write_file(writer.fs, "file", std::string(content.data(), content.size()));
        }
        for (const char* further : {"&timeout=2", "&timeout=2&provider=ucx+tcp"}) {
            read_from_a_stopped_process(uri("ros2s", further), engine.pid(), content);
        }
        read_from_a_stopped_process(uri("ros2s+dpu", "&timeout=2"), dpu.pid(), content);
    }
}

// While a call of another thread waits for the stopped engine, opens and closes a pool in this
// process.
void open_a_pool_meanwhile(const EngineProcess& stopped, const std::function<void()>& waits,
                           const std::string& local) {
    using std::chrono::seconds;
    stop(stopped.pid());
    const auto waiting = std::async(std::launch::async, waits);
    EXPECT_EQ(waiting.wait_for(seconds(1)), std::future_status::timeout);
    const auto meanwhile = std::async(std::launch::async, [&local] {
        const Opened opened(local);
        EXPECT_EQ(opened.result, 0) << opened.sentence;
    });
    // The control plane's client gives up after 10 s.
    EXPECT_EQ(meanwhile.wait_for(seconds(8)), std::future_status::ready);
    EXPECT_EQ(waiting.wait_for(seconds(0)), std::future_status::timeout);
    EXPECT_EQ(::kill(stopped.pid(), SIGCONT), 0);
}

TEST_F(NetworkUri, HangingServerDelaysOnlyItsUsers) {
    ASSERT_TRUE(engine.start());
    const EngineProcess never_started;
    const std::string local =
        fmt::format("ros2s+local:///pool/main?dir={}", never_started.pool_directory());
    std::optional<Opened> used;
    used.emplace(uri("ros2s"));
    ASSERT_EQ(used->result, 0) << used->sentence;
    open_a_pool_meanwhile(engine, [&] { const Opened other(uri("ros2s", "&timeout=60")); }, local);
    open_a_pool_meanwhile(engine, [&] { used.reset(); }, local);
}

TEST_F(NetworkUri, ThreadsOpenAndCloseAllUrisAtOnce) {
    ASSERT_TRUE(engine.start() && dpu.start());
    std::vector<std::future<void>> running;
    for (const std::string& way :
         {uri("ros2s"), uri("ros2s", "&provider=ucx+tcp"),
          uri("ros2s", "&provider=ucx+tcp&timeout=60"), uri("ros2s", "&provider=ofi+tcp%3Bofi_rxm"),
          uri("ros2s+dpu"), uri("ros2s+local")}) {
        running.push_back(std::async(std::launch::async, [way] {
            for (int round = 0; round < 10; ++round) {
                const Opened opened(way);
                ASSERT_EQ(opened.result, 0) << way << ": " << opened.sentence;
            }
        }));
    }
    for (auto& each : running) each.get();
}

TEST_F(NetworkUri, RemoteUcxServerNeedsADevice) {
    const Opened opened("ros2s://192.0.2.1/pool/main?provider=ucx+tcp");
    EXPECT_EQ(opened.result, -EINVAL);
    EXPECT_THAT(opened.sentence, HasSubstr("ROS2STORE_UCX_DEVICE=eth0"));
}

}  // namespace
}  // namespace ros2s::tests
