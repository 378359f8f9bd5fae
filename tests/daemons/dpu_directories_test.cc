// A real ros2store-dpu that serves directories of this machine, mostly without an engine. This
// process is the host, over shared memory and gRPC.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "dpu_host.h"
#include "dpu_process.h"
#include "dpu_tenant.h"

namespace ros2s::tests {
namespace {

using fs::Window;
using testing::HasSubstr;

const Call call;

void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
std::string content_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

class DpuDirectories : public testing::Test {
  protected:
    DpuDirectories() {
        std::filesystem::create_directory(served);
        reactor = started_reactor("host");
    }
    std::unique_ptr<HostFiles> open(Report& report, const std::string& container = "train") {
        return open_host(*reactor, dpu.options("lustre", container), report);
    }
    void close(std::unique_ptr<HostFiles>& host) { close_host(*reactor, host); }
    TemporaryDirectory directory;
    const std::string served = directory.path("served");
    DpuProcess dpu{directory.path("dpu"),
                   fmt::format("directories: {{lustre/train: {}}}\n", served)};
    std::unique_ptr<OsReactor> reactor;
};

TEST_F(DpuDirectories, HostUsesADirectoryWithoutEngine) {
    ASSERT_TRUE(dpu.start());
    Report report;
    auto host = open(report);
    auto other = open(report);
    ASSERT_TRUE(host != nullptr && other != nullptr) << report.text() << dpu.log();
    const std::string content = five_megabytes();
    const std::string path =
        run_blocking(*reactor, [&] {
            return write_and_read(host->file_system(), other->file_system(), content);
        }).path;
    EXPECT_THAT(path, HasSubstr("host link over shm to the DPU at "));
    EXPECT_THAT(path, HasSubstr("which keeps lustre/train in a directory on "));
    EXPECT_THAT(path, HasSubstr("durable only after fsync, without checksums"));
    // Other hosts see it, too.
    EXPECT_TRUE(content_of(served + "/directory/file") == content);
    EXPECT_THAT(host->path(), HasSubstr("lustre/train"));
    EXPECT_EQ(host->layers(),
              "LinkClient → HostMountLocator → Channel → Domain → SessionTickets → "
              "ControlClient");
    close(other);
    close(host);
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_THAT(dpu.log(), HasSubstr("the directory 'lustre/train': " + served + " on "));
}

// All ways in which a host can try to leave a directory. The host creates the links itself.
Task<> try_to_leave(fs::FileSystem& files) {
    constexpr fs::Owner owner{};
    for (const char* target : {"/etc", "..", "../outside", "/proc/self/root/etc"}) {
        const std::string name = fmt::format("link{}", std::string_view(target).size());
        const auto link = co_await files.symlink(call, fs::root_node, name, target, owner);
        EXPECT_TRUE(link) << name;
        EXPECT_EQ((co_await files.lookup(call, link->node, "passwd")).error().code,
                  Code::not_directory);
        EXPECT_EQ((co_await files.open(call, link->node, {})).error().code, Code::loop);
        EXPECT_EQ((co_await files.mkdir(call, link->node, "d", 0755, owner)).error().code,
                  Code::not_directory);
        EXPECT_EQ((co_await files.create(call, fs::root_node, name, 0644, {.write = true}, owner))
                      .error()
                      .code,
                  Code::loop);
        std::vector<std::byte> memory(64);
        fs::ReadManyItem item{.name = name + "/secret", .window = Window::local(Bytes(memory))};
        EXPECT_TRUE(co_await files.read_many(call, fs::root_node, {&item, 1}));
        EXPECT_EQ(item.status.error().code, Code::loop);
    }
    for (const char* name : {"..", ".", "", "a/../../outside", "/etc/passwd"}) {
        // Look-ups accept "." and "..", for file handles of the kernel. They do not lead out of the
        // directory.
        const auto found = co_await files.lookup(call, fs::root_node, name);
        if (name == std::string_view(".")) {
            EXPECT_TRUE(found && found->node == fs::root_node);
        } else {
            const Code refused = name == std::string_view("..") ? Code::stale : Code::invalid;
            EXPECT_EQ(found.error().code, refused) << name;
        }
        EXPECT_EQ((co_await files.mkdir(call, fs::root_node, name, 0755, owner)).error().code,
                  Code::invalid);
        EXPECT_EQ((co_await files.rename(call, fs::root_node, "link2", fs::root_node, name, {}))
                      .error()
                      .code,
                  Code::invalid);
        fs::ReadManyItem item{.name = name};
        EXPECT_TRUE(co_await files.read_many(call, fs::root_node, {&item, 1}));
        EXPECT_EQ(item.status.error().code, Code::invalid) << name;
    }
}

TEST_F(DpuDirectories, HostCannotLeaveTheDirectory) {
    std::filesystem::create_directory(directory.path("outside"));
    write_file(directory.path("outside/secret"), "secret");
    ASSERT_TRUE(dpu.start());
    Report report;
    auto host = open(report);
    ASSERT_NE(host, nullptr) << report.text() << dpu.log();
    run_blocking(*reactor, [&] { return try_to_leave(host->file_system()); });
    close(host);
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_EQ(content_of(directory.path("outside/secret")), "secret");
    EXPECT_FALSE(std::filesystem::exists(directory.path("outside/d")));
}

// Files on the DPU's machine that would belong to another user, or run as another user.
Task<> try_to_leave_power(fs::FileSystem& files) {
    constexpr fs::Owner root{.uid = 0, .gid = 0};
    const auto made =
        co_await files.create(call, fs::root_node, "program", 06755, {.write = true}, root);
    EXPECT_TRUE(made);
    EXPECT_EQ(made->attributes.mode, S_IFREG | 0755U);
    EXPECT_TRUE(co_await files.close(call, made->handle));
    const fs::NodeId node = made->attributes.node;
    const auto changed =
        co_await files.set_attributes(call, node, {.mode = 06711, .uid = 0, .gid = 0});
    EXPECT_TRUE(changed);
    EXPECT_EQ(changed->mode, S_IFREG | 0711U);
    EXPECT_NE(changed->uid, 0U);
    EXPECT_NE(changed->gid, 0U);
    const auto special =
        co_await files.mknod(call, fs::root_node, "node", S_IFREG | 06755, 0, root);
    EXPECT_TRUE(special);
    EXPECT_EQ(special->mode, S_IFREG | 0755U);
    for (const mode_t type : {S_IFCHR, S_IFBLK}) {
        const auto device =
            co_await files.mknod(call, fs::root_node, "device", type | 0666, makedev(1, 3), root);
        EXPECT_EQ(device.error().code, Code::denied);
    }
    for (const char* name : {"security.capability", "trusted.overlay.opaque"}) {
        EXPECT_EQ((co_await files.set_xattr(call, node, name, as_bytes("x"), fs::SetXattr::any))
                      .error()
                      .code,
                  Code::denied);
        EXPECT_EQ((co_await files.remove_xattr(call, node, name)).error().code, Code::denied);
    }
    // The set-group bit of a directory sets the group of its files.
    const auto directory = co_await files.mkdir(call, fs::root_node, "shared", 06775, root);
    EXPECT_TRUE(directory);
    EXPECT_EQ(directory->mode, S_IFDIR | 02775U);
    // Existing programs keep their bits until they are changed.
    const auto written = co_await files.lookup(call, fs::root_node, "written");
    const auto cut = co_await files.lookup(call, fs::root_node, "cut");
    EXPECT_TRUE(written && cut);
    EXPECT_EQ(written->mode & 07777, 06755U);
    const auto file = co_await files.open(call, written->node, {.write = true});
    EXPECT_TRUE(file);
    EXPECT_TRUE(co_await files.pwrite(call, file->handle, Window::local(as_bytes("mine")), 0));
    EXPECT_TRUE(co_await files.close(call, file->handle));
    EXPECT_TRUE(co_await files.set_attributes(call, cut->node, {.size = 1}));
}

TEST_F(DpuDirectories, HostGainsNoPrivileges) {
    for (const char* name : {"written", "cut"}) {
        write_file(served + "/" + name, "program");
        ASSERT_EQ(::chmod((served + "/" + name).c_str(), 06755), 0);
    }
    ASSERT_TRUE(dpu.start());
    Report report;
    auto host = open(report);
    ASSERT_NE(host, nullptr) << report.text() << dpu.log();
    run_blocking(*reactor, [&] { return try_to_leave_power(host->file_system()); });
    close(host);
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    for (const char* name : {"program", "node", "written", "cut"}) {
        struct stat status{};
        ASSERT_EQ(::stat((served + "/" + name).c_str(), &status), 0) << name;
        EXPECT_EQ(status.st_mode & (S_ISUID | S_ISGID), 0U) << name;
    }
    EXPECT_EQ(content_of(served + "/written"), "mineram");
}

struct OpenFile {
    fs::FileHandle file;
    fs::NodeId node;
};

Task<> keep_a_file_open(fs::FileSystem& files, OpenFile& kept) {
    const auto file = co_await files.create(call, fs::root_node, "mine", 0644, {.write = true}, {});
    EXPECT_TRUE(file);
    EXPECT_TRUE(co_await files.pwrite(call, file->handle, Window::local(as_bytes("before")), 0));
    kept = {.file = file->handle, .node = file->attributes.node};
}
Task<> find_it_closed(fs::FileSystem& files, const OpenFile& kept) {
    const auto written =
        co_await files.pwrite(call, kept.file, Window::local(as_bytes("after")), 0);
    EXPECT_EQ(written.error().code, Code::stale);
    EXPECT_EQ((co_await files.get_attributes(call, kept.node)).error().code, Code::stale);
    // A look-up by name finds it.
    const auto found = co_await files.lookup(call, fs::root_node, "mine");
    EXPECT_TRUE(found) << describe(found.error());
    const auto opened = co_await files.open(call, found->node, {.write = true});
    EXPECT_TRUE(opened);
    EXPECT_TRUE(co_await files.pwrite(call, opened->handle, Window::local(as_bytes("again!")), 0));
    EXPECT_TRUE(co_await files.close(call, opened->handle));
    EXPECT_TRUE(co_await files.close(call, kept.file));
}

// Node numbers of a directory do not survive the process. Open files are lost, and a number never
// leads to another file.
TEST_F(DpuDirectories, RestartClosesOpenFilesAndLosesNothing) {
    write_file(served + "/others", "others");
    ASSERT_TRUE(dpu.start());
    Report report;
    auto host = open(report);
    ASSERT_NE(host, nullptr) << report.text() << dpu.log();
    OpenFile kept;
    run_blocking(*reactor, [&] { return keep_a_file_open(host->file_system(), kept); });
    dpu.kill_hard();
    EXPECT_EQ(content_of(served + "/mine"), "before");
    ASSERT_TRUE(dpu.start());
    run_blocking(*reactor, [&] { return find_it_closed(host->file_system(), kept); });
    close(host);
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_EQ(content_of(served + "/mine"), "again!");
    EXPECT_EQ(content_of(served + "/others"), "others");
}

TEST_F(DpuDirectories, UnservedContainerIsReported) {
    ASSERT_TRUE(dpu.start());
    Report report;
    EXPECT_EQ(open(report, "none"), nullptr);
    EXPECT_THAT(report.text(),
                HasSubstr("the pool 'lustre' has no container 'none'; list the pool's containers"));
    Report other;
    const auto opened = run_blocking(
        *reactor, [&] { return HostFiles::open(*reactor, dpu.options("pool", "main"), other); });
    EXPECT_FALSE(opened);
    EXPECT_THAT(other.text(), HasSubstr("there is no pool 'pool' here; available: lustre"));
    // The directory is removed while the daemon serves it.
    std::filesystem::remove(served);
    Report gone;
    EXPECT_EQ(open(gone), nullptr);
    EXPECT_THAT(gone.text(), HasSubstr("cannot be opened"));
}

std::unique_ptr<HostFiles> open_as(OsReactor& reactor, const DpuProcess& dpu,
                                   const std::string& name, const std::string& pool,
                                   const std::string& container, Report& report) {
    connection::HostOptions options = dpu.options(pool, container);
    options.dpu.identity = pki::identity_in(dpu.places().host_certs, name);
    auto opened =
        run_blocking(reactor, [&] { return HostFiles::open(reactor, std::move(options), report); });
    return opened ? std::move(*opened) : nullptr;
}

// While one tenant waits for an engine that does not answer, another tenant can mount a directory,
// which needs no engine.
TEST_F(DpuDirectories, DirectoryMountsWhileEngineHangs) {
    EngineProcess engine;
    DpuProcess both(engine, "shm");
    both.serve_directory("lustre/train", served);
    both.give(R"("CN=alice": {write: pool/*}, "CN=bob": {write: lustre/*})");
    issue_certificates(both, {"alice", "bob"});
    const auto hers = started_reactor("alice");
    ASSERT_TRUE(engine.start() && both.start());
    ASSERT_EQ(::kill(engine.pid(), SIGSTOP), 0);
    std::unique_ptr<HostFiles> alice;
    Report alices, bobs;
    std::atomic<bool> has_waited = false;
    std::thread waiting([&] {
        alice = open_as(*hers, both, "alice", "pool", "main", alices);
        has_waited = true;
    });
    const std::string entered =
        "ros2store_server_connections_greeted_total{provider=\"shm\",tenant=\"CN=alice\"} 1\n";
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (both.metrics().find(entered) == std::string::npos &&
           std::chrono::steady_clock::now() < until) {
        ::usleep(10'000);
    }
    ::usleep(200'000);
    auto bob = open_as(*reactor, both, "bob", "lustre", "train", bobs);
    EXPECT_NE(bob, nullptr) << bobs.text();
    if (bob != nullptr) {
        EXPECT_TRUE(run_blocking(*reactor, [&] {
            return bob->file_system().mkdir(call, fs::root_node, "bobs", 0755, {});
        }));
        close(bob);
    }
    EXPECT_FALSE(has_waited) << "it did not wait for the engine: " << alices.text();
    EXPECT_EQ(::kill(engine.pid(), SIGCONT), 0);
    waiting.join();
    EXPECT_NE(alice, nullptr) << alices.text() << both.log();
    if (alice != nullptr) (void)run_blocking(*hers, [&] { return alice->close(); });
}

TEST_F(DpuDirectories, CommandListsButDoesNotCreateDirectories) {
    ASSERT_TRUE(dpu.start());
    const auto container = [&](std::string_view command, std::string_view place,
                               std::string& said) {
        return run_program(fmt::format("'{}' container {} 'ros2s+dpu:///{}?dir={}'", PROGRAM_CLI,
                                       command, place, directory.path("dpu")),
                           said);
    };
    std::string said;
    EXPECT_EQ(container("list", "lustre", said), 0) << said;
    EXPECT_EQ(said, fmt::format("train            a directory of the DPU's machine, or in DAOS  "
                                "ros2s+dpu:///lustre/train?dir={}\n",
                                directory.path("dpu")));
    for (const char* command : {"query", "create", "destroy --yes"}) {
        EXPECT_EQ(container(command, "lustre/train", said), 1) << said;
        EXPECT_THAT(said, HasSubstr("are directories of the server: its settings name them"));
    }
}

// ---- settings

TEST(DpuDirectorySettings, InvalidSettingIsReportedInOneLine) {
    const TemporaryDirectory directory;
    write_file(directory.path("file"), "");
    struct Bad {
        std::string yaml, sentence;
    };
    const std::string here = directory.path("");
    for (const Bad& bad : {
             Bad{"{}\n", "there is nothing to serve: set 'pools', 'directories'"},
             Bad{"directories: {a/b: /none/such}\n",
                 "directories: 'a/b': the directory cannot be opened: cannot read /none/such"},
             Bad{fmt::format("directories: {{a/b: {}}}\n", directory.path("file")),
                 "cannot be opened: "},
             Bad{fmt::format("directories:\n  a/b: {0}\n  a/b: {0}\n", here),
                 ":3: \"a/b\" is given twice, first in line 2; remove one of them"},
             Bad{fmt::format("pools: tank, pool\ndirectories: {{pool/b: {}}}\n", here),
                 "'pool/b' is in the pool 'pool', which does not consist of directories"},
             Bad{"directories: {b: /x}\n", "'b' is not of the form POOL/CONTAINER"},
             Bad{"directories: {a/b/c: /x}\n", "'a/b/c' is not of the form POOL/CONTAINER"},
             Bad{"directories: {a/b: x}\n",
                 "'a/b' has the path 'x'; give a path that begins with /"},
             Bad{"directories: {a/b: [x]}\n", "directories.a/b: one text is needed here"},
             Bad{"directories: {a/b: /}\ndata: {listen: \"shm /" + std::string(90, 'x') + "\"}\n",
                 "which is too long by 1 bytes: the name of a tenant is appended to it"},
             Bad{"directories: /x\n", "\"directories\" is a group, not a setting"},
         }) {
        write_file(directory.path("dpu.yaml"), bad.yaml);
        std::string said;
        EXPECT_EQ(
            run_program(fmt::format("'{}' --config '{}'", PROGRAM_DPU, directory.path("dpu.yaml")),
                        said),
            1);
        EXPECT_THAT(said, HasSubstr(bad.sentence)) << bad.yaml;
        // The log may also have lines about the start. The reason for the exit is one line.
        const size_t last = said.rfind('\n', said.size() - 2);
        EXPECT_TRUE(said.substr(last == said.npos ? 0 : last + 1).starts_with("ros2store-dpu: "))
            << said;
    }
}

TEST(DpuDirectorySettings, PrintConfigShowsDirectories) {
    const TemporaryDirectory directory;
    std::string said;
    EXPECT_EQ(run_program(fmt::format("'{}' --print-config", PROGRAM_DPU), said), 0);
    EXPECT_THAT(said, HasSubstr("POOL/CONTAINER: /its/path"));
    write_file(directory.path("dpu.yaml"), "directories: {a/b: /x y}\n");
    EXPECT_EQ(run_program(fmt::format("'{}' --print-config --config '{}'", PROGRAM_DPU,
                                      directory.path("dpu.yaml")),
                          said),
              0);
    EXPECT_THAT(said, HasSubstr("directories:\n  \"a/b\": \"/x y\"\n"));
}

}  // namespace
}  // namespace ros2s::tests
