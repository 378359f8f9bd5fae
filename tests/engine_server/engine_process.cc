#include "engine_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>

namespace ros2s::tests {
namespace {

// A port of loopback that nobody has now. The engine keeps it over restarts.
uint16_t free_port() {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length), 0);
    ::close(descriptor);
    return ntohs(address.sin_port);
}

}  // namespace

int run_program(const std::string& command, std::string& output) {
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    output.clear();
    char part[4096];
    while (const size_t bytes = std::fread(part, 1, sizeof part, pipe)) output.append(part, bytes);
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

EngineProcess::EngineProcess() : data_port_(free_port()), metrics_port_(free_port()) {
    std::string pattern = std::filesystem::temp_directory_path() / "ros2store-engine-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    std::string said;
    EXPECT_EQ(
        run_program(fmt::format("'{}' up '{}' --size 256MiB", PROGRAM_CLI, path("pool")), said), 0)
        << said;
    EXPECT_EQ(run_program(fmt::format("'{}' certs init '{}'", PROGRAM_CLI, path("certs")), said), 0)
        << said;
    write_settings();
}

EngineProcess::~EngineProcess() {
    if (pid_ != 0) kill_hard();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

void EngineProcess::write_settings(const std::string& extra) {
    std::ofstream(path("engine.yaml")) << fmt::format(
        "pools: {}\n"
        "control: {{listen: \"unix:{}\", certificates: {}}}\n"
        "data: {{listen: \"shm {}, ucx+tcp 127.0.0.1:{}\"}}\n"
        "metrics: {{listen: \"127.0.0.1:{}\"}}\n{}",
        path("pool"), path("control.sock"), path("certs"), path("data.sock"), data_port_,
        metrics_port_, extra);
}

std::string EngineProcess::log() const {
    std::ostringstream text;
    text << std::ifstream(path("log")).rdbuf();
    return text.str();
}

bool EngineProcess::start() {
    const std::string log_file = path("log"), settings = path("engine.yaml");
    pid_ = ::fork();
    if (pid_ == 0) {
        const int descriptor = ::open(log_file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
        ::dup2(descriptor, STDOUT_FILENO);
        ::dup2(descriptor, STDERR_FILENO);
        ::execl(PROGRAM_ENGINE, PROGRAM_ENGINE, "--config", settings.c_str(), nullptr);
        ::_exit(127);
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < until) {
        if (log().find("info: ready") != std::string::npos) return true;
        if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
            pid_ = 0;
            ADD_FAILURE() << "it ended: " << log();
            return false;
        }
        (void)::poll(nullptr, 0, 5);
    }
    ADD_FAILURE() << "not ready within a minute: " << log();
    return false;
}

int EngineProcess::wait() {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
void EngineProcess::kill_hard() {
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(wait(), -SIGKILL);
}
int EngineProcess::stop() {
    ::kill(pid_, SIGTERM);
    return wait();
}

direct::DirectOptions EngineProcess::options(const std::string& provider) const {
    return {.control = "unix:" + path("control.sock"),
            .server_name = "localhost",
            .identity = {path("certs/ca.crt"), path("certs/client.crt"), path("certs/client.key")},
            .pool = "pool",
            .program = "test",
            .providers = {provider}};
}

}  // namespace ros2s::tests
