#include "daemon_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "strike.h"

namespace ros2s::tests {

DaemonProcess::~DaemonProcess() {
    if (pid_ != 0) EXPECT_EQ(stop(), 0) << log();
}

namespace {

// A thread writes the daemon's log lines, and sleeps if there are none.
bool writes_lines(int pid) {
    std::error_code none;
    for (const auto& task :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), none)) {
        std::string name, status;
        std::getline(std::ifstream(task.path() / "comm"), name);
        if (name != "ros2store-log") continue;
        std::getline(std::ifstream(task.path() / "stat"), status);
        // "4711 (ros2store-log) S …"
        return status.find(") S ") == std::string::npos;
    }
    return false;
}

}  // namespace

std::string DaemonProcess::log() const {
    for (int i = 0; i < 1000 && pid_ != 0 && writes_lines(pid_); ++i) (void)::poll(nullptr, 0, 1);
    std::ostringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
}

bool DaemonProcess::start() {
    // Drops the output of the previous process.
    std::error_code none;
    std::filesystem::remove(log_, none);
    pid_ = ::fork();
    if (pid_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that crashes leaves nothing behind
        const int descriptor = ::open(log_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
        ::dup2(descriptor, STDOUT_FILENO);
        ::dup2(descriptor, STDERR_FILENO);
        ::execl(program_.c_str(), program_.c_str(), "--config", settings_.c_str(), nullptr);
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

int DaemonProcess::wait() {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
void DaemonProcess::kill_hard() {
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(wait(), -SIGKILL);
}
int DaemonProcess::stop() {
    ::kill(pid_, SIGTERM);
    return wait();
}

void DaemonProcess::strike_at(const std::string& function) {
    tests::strike_at(pid_, program_, function);
}
void DaemonProcess::expect_struck() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    int status = 0, ended = 0;
    while (ended == 0 && std::chrono::steady_clock::now() < until) {
        ended = ::waitpid(pid_, &status, WNOHANG);
        (void)::poll(nullptr, 0, 1);
    }
    if (ended == 0) {
        ADD_FAILURE() << "it did not come to where it was to be struck: " << log();
        return kill_hard();
    }
    pid_ = 0;
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP) << status << ": " << log();
}

std::unique_ptr<OsReactor> started_reactor(const std::string& thread_name) {
    Report report;
    auto made = OsReactor::create({.thread_name = thread_name}, report);
    if (made && (*made)->start(report)) return std::move(*made);
    fmt::print(stderr, "no reactor: {}\n", report.text());
    std::abort();
}

uint16_t free_port() {
    // Below the range of ephemeral ports, so that connections of other tests do not take it. Suites
    // that run at the same time have numbers near each other, and take different ports.
    constexpr uint32_t least = 20'000, count = 12'000, of_a_suite = 401;
    static uint32_t next = static_cast<uint32_t>(::getpid()) * of_a_suite;
    for (uint32_t tries = 0; tries < count; ++tries) {
        const auto port = static_cast<uint16_t>(least + next++ % count);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
        const int bound = ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address);
        ::close(descriptor);
        if (bound == 0) return port;
    }
    ADD_FAILURE() << "no port is free";
    return 0;
}

std::string password_in(const std::string& file) {
    std::string said;
    // Any user name.
    EXPECT_EQ(run_program("printf 'test:%s' $(cat '" + file + "') | base64 -w0", said), 0) << said;
    return "Authorization: Basic " + said + "\r\n";
}

std::string page_at(uint16_t port, std::string_view path, const std::string& header) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const std::string request = fmt::format("GET {} HTTP/1.0\r\n{}\r\n", path, header);
    EXPECT_EQ(::send(descriptor, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char part[4096];
    for (ssize_t bytes = 0; (bytes = ::recv(descriptor, part, sizeof part, 0)) > 0;) {
        answer.append(part, static_cast<size_t>(bytes));
    }
    ::close(descriptor);
    return answer;
}

int run_program(const std::string& command, std::string& output) {
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    output.clear();
    char part[4096];
    while (const size_t bytes = std::fread(part, 1, sizeof part, pipe)) output.append(part, bytes);
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void make_certificates(const std::string& name, const std::string& directory) {
    static const TemporaryDirectory all;
    const std::string made = all.path(name);
    if (std::string said; !std::filesystem::exists(made)) {
        EXPECT_EQ(run_program(fmt::format("'{}' certs init '{}'", PROGRAM_CLI, made), said), 0)
            << said;
    }
    std::filesystem::copy(made, directory, std::filesystem::copy_options::recursive);
}

uint64_t resident_kib(int pid) {
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    std::string word;
    uint64_t kib = 0;
    while (status >> word && word != "VmRSS:") {
    }
    status >> kib;
    return kib;
}

TemporaryDirectory::TemporaryDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "ros2store-daemon-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
}
TemporaryDirectory::~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace ros2s::tests
