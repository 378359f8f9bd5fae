#include "pool_service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "pool_files.h"
#include "ros2s/base/process_end.h"
#include "ros2s/fabric/shm/shm.h"

namespace ros2s::pool {
namespace {

std::string program_of(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/comm", pid));
    std::string name;
    std::getline(file, name);
    return name;
}

}  // namespace

Result<ServiceAddress> ServiceAddress::in(const std::string& directory, Report& report) {
    ServiceAddress address{.path = pool::in(directory, service_name)};
    if (address.path.size() < sizeof(sockaddr_un::sun_path)) return address;
    address.directory =
        fabric::Descriptor(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!address.directory.open()) {
        return cannot("open", directory, fail_errno(errno).error(), report);
    }
    address.path = fmt::format("/proc/self/fd/{}/{}", address.directory.get(), service_name);
    return address;
}

PoolService::PoolService(Environment environment, object::ObjectStore& store, OnChange on_change,
                         ServiceAddress address)
    : environment_(std::move(environment)),
      on_change_(std::move(on_change)),
      address_(std::move(address)),
      service_(store, nullptr, nullptr),
      left_(environment_.reactor) {}

PoolService::~PoolService() { ROS2S_CHECK(domain_ == nullptr); }

Task<Result<std::unique_ptr<PoolService>>> PoolService::listen(Environment environment,
                                                               std::string directory,
                                                               object::ObjectStore& store,
                                                               OnChange on_change, Report& report) {
    ROS2S_CO_TRY_ASSIGN(ServiceAddress address, ServiceAddress::in(directory, report));
    std::unique_ptr<PoolService> made(
        new PoolService(std::move(environment), store, std::move(on_change), std::move(address)));
    made->domain_ = fabric::shm::open_domain(made->environment_.reactor);
    auto server =
        co_await rpc::Server::listen(made->environment_.reactor, *made->domain_,
                                     made->address_.path, made->service_, *made, {}, report);
    if (!server) {
        co_await made->close();
        co_return fail(server.error());
    }
    made->server_ = std::move(*server);
    // Whatever the umask: admit() decides, and others need not even come.
    [[maybe_unused]] const int changed = ::chmod(made->address_.path.c_str(), 0600);
    co_return made;
}

Task<> PoolService::close() {
    if (server_) co_await server_->close();
    server_.reset();
    if (domain_) co_await domain_->close();
    domain_.reset();
}

Task<> PoolService::until_unused(Duration within) {
    Reactor& reactor = environment_.reactor;
    for (const Time until = reactor.now() + within; users_.empty() && reactor.now() < until;) {
        co_await sleep_for(reactor, std::chrono::milliseconds(10));
    }
    while (!users_.empty()) co_await left_;
}

Result<rpc::Guest> PoolService::admit(const rpc::HelloBody& /*hello*/, const fabric::Peer& peer) {
    if (peer.user != static_cast<int64_t>(::geteuid())) return fail(Code::denied);
    const auto pid = static_cast<pid_t>(peer.process);
    const uint64_t session = environment_.reactor.secrets().next();
    users_[session] = {.pid = pid, .program = program_of(pid)};
    say();
    return rpc::Guest{.session = session};
}

// A process that lives may only have lost its connection.
void PoolService::left(const rpc::Guest& guest) {
    const auto user = users_.extract(guest.session);
    if (!user.empty() && is_ending(user.mapped().pid)) {
        service_.client_ended(guest.session);
    } else {
        service_.session_ended(guest.session);
    }
    say();
    left_.wake_all();
}

void PoolService::say() const {
    std::vector<PoolUser> users;
    for (const auto& [session, user] : users_) users.push_back(user);
    on_change_(users);
}

}  // namespace ros2s::pool
