// The shared parts of the test programs; see test_rig.h.
#include "test_rig.h"

namespace ros2s::control {

TemporaryDirectory::TemporaryDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "ros2store-control-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

pki::Seconds now() {
    return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

Certificates::Certificates() {
    static const Certificates made{New{}};
    std::filesystem::copy(made.directory(), directory(), std::filesystem::copy_options::recursive);
}

Certificates::Certificates(New) {
    Report report;
    const auto made = pki::make_authority(
        directory(),
        {.certificates = {{.name = "server",
                           .alternative_names = {"localhost", "127.0.0.1", "::1"},
                           .server = true},
                          {.name = "alice"},
                          {.name = "mallory"}}},
        now(), report);
    EXPECT_TRUE(made) << report.text();
}

pki::Identity Certificates::of(const std::string& name) const {
    return {.authority_file = directory() + "/ca.crt",
            .certificate_file = directory() + "/" + name + ".crt",
            .key_file = directory() + "/" + name + ".key"};
}

void Certificates::add(const std::string& name) {
    Report report;
    EXPECT_TRUE(pki::issue(directory(), {.name = name}, false, now(), report)) << report.text();
}

Log Lines::log() {
    return Log([this](LogLevel, std::string_view line) {
        const std::lock_guard lock(mutex_);
        lines_.emplace_back(line);
    });
}

std::vector<std::string> Lines::with(std::string_view text) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    for (const std::string& line : lines_) {
        if (line.find(text) != line.npos) found.push_back(line);
    }
    return found;
}

std::unique_ptr<OsReactor> make_reactor(const char* name) {
    Report report;
    auto reactor = OsReactor::create({.thread_name = name}, report);
    EXPECT_TRUE(reactor) << report.text();
    EXPECT_TRUE((*reactor)->start(report)) << report.text();
    return std::move(*reactor);
}

Task<Result<object::ContainerRecord>> OnePool::create_container(
    const Call& call, std::string, std::string, object::ContainerProperties properties,
    fs::Owner owner, Report& report) {
    auto made = co_await store_.create_container(call, properties);
    if (!made) co_return report.fail(made.error(), "the container could not be made");
    ROS2S_CO_TRY(co_await fs::Dfs::format(call, store_, made->id, reactor_, owner, report));
    co_return std::move(*made);
}

Task<Result<std::unique_ptr<fs::FileSystem>>> OnePool::open(const Call& call,
                                                            const session::MountedContainer& which,
                                                            Report& report) {
    const std::string& container = which.container;
    if (container == "slow") {
        slow_begun.add();
        const bool late = co_await sleep_for(reactor_, 10 * patience, call.stop);
        (late ? slow_late : slow_stopped).add();
        co_return report.fail(late ? Code::io : Code::cancelled, "the slow container was given up");
    }
    const auto all = co_await store_.list_containers(call);
    for (const object::ContainerRecord& each : *all) {
        if (each.properties.label != container) continue;
        co_return co_await fs::Dfs::mount(call, store_, each.id, reactor_,
                                          {.takes_leases = which.own != session::MountId{}},
                                          report);
    }
    co_return report.fail(Code::not_found, "there is no container of that name");
}

rights::Subjects all_rights() {
    using rights::Right;
    rights::Subjects subjects;
    for (const char* subject : {"CN=alice", "CN=mallory"}) {
        for (const char* pool : {"pool", "lake", "none"}) {
            subjects[subject].grants.push_back(
                {.pool = pool,
                 .container = {"*"},
                 .path = {},
                 .rights = {Right::write, Right::create, Right::destroy}});
        }
    }
    return subjects;
}

namespace {

session::SessionTable::Options with(admission::Accounts& accounts,
                                    session::SessionTable::Options options) {
    options.accounts = &accounts;
    return options;
}

}  // namespace

Rig::Rig(RigOptions options)
    : tickets(*server_reactor, options.tickets),
      sessions(*server_reactor, tickets, with(accounts, options.sessions), lines.log()),
      mounts(*server_reactor, sessions, pool, {}) {
    sessions.rights().replace({.subjects = std::move(options.access)});
    options_ = options.control;
    if (options_.listen.empty()) options_.listen = {"127.0.0.1:0"};
    options_.identity = certificates.of("server");
    options_.purpose = session::Purpose::link;
    options_.program = "test-server 1.2.3";
    options_.data = {{.provider = "shm", .address = "unix:shm.sock"},
                     {.provider = "ucx+tcp", .address = "10.0.0.1:7401"}};
    Report report;
    there([&] { return start(report); });
    EXPECT_NE(server, nullptr) << report.text();
    const Call call;
    EXPECT_TRUE(there([&] {
        return pool.create_container(call, "CN=client", "pool", {.label = "c"}, {}, report);
    }));
}

void Rig::restart() {
    options_.listen = server->addresses();
    there([&] { return server->stop(0s); });
    Report report;
    there([&] { return start(report); });
    EXPECT_NE(server, nullptr) << report.text();
}

Task<> Rig::start(Report& report) {
    server.reset();
    auto started = co_await ControlServer::start({.reactor = *server_reactor,
                                                  .blocking = blocking,
                                                  .sessions = sessions,
                                                  .tickets = tickets,
                                                  .pools = pool,
                                                  .mounts = &mounts,
                                                  .admission = &admission,
                                                  .log = lines.log()},
                                                 options_, report);
    if (started) server = std::move(*started);
}

Rig::~Rig() {
    there([&] { return stop(); });
    server.reset();
}

Task<> Rig::stop() {
    if (server != nullptr) co_await server->stop(0s);
    co_await sessions.close_all();
}

int Rig::port() const { return std::stoi(address().substr(address().rfind(':') + 1)); }

std::unique_ptr<ControlClient> Rig::client(const std::string& name) {
    Report report;
    auto made = ControlClient::create(
        *client_reactor, {.address = address(), .identity = certificates.of(name)}, report);
    EXPECT_TRUE(made) << report.text();
    return std::move(*made);
}

SessionOptions Rig::wanted(Uuid client) {
    return {.client = client,
            .purpose = session::Purpose::link,
            .pool = "pool",
            .program = "test",
            .providers = {"shm"}};
}

std::vector<std::string> Rig::hosts_of_one_tenant(int count) {
    std::vector<std::string> hosts;
    admission::Allowances allowances;
    for (int i = 0; i < count; ++i) {
        const std::string& name = hosts.emplace_back("host-" + std::to_string(i));
        certificates.add(name);
        allowances.accounts["CN=" + name] = {{"pool", "batch"}};
    }
    do_there([&] { accounts.set(std::move(allowances)); });
    return hosts;
}

OpenedSession Rig::open(ControlClient& client) {
    Report report;
    const Call call;
    const auto opened = here([&] { return client.open_session(call, wanted(), report); });
    EXPECT_TRUE(opened) << report.text();
    return opened ? *opened : OpenedSession{};
}

session::MountId Rig::mount(ControlClient& client, session::SessionId session,
                            const std::string& container, bool read_only) {
    Report report;
    const Call call;
    const auto mounted = here(
        [&] { return client.mount(call, session, container, {.read_only = read_only}, report); });
    EXPECT_TRUE(mounted) << report.text();
    return mounted ? mounted->id : session::MountId{};
}

}  // namespace ros2s::control
