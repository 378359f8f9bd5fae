#include "tenant_domains.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "ros2s/base/check.h"
#include "ros2s/base/text_parts.h"
#include "ros2s/daemon/tenant_sources.h"
#include "ros2s/fabric/providers/providers.h"

namespace ros2s::dpud {

// Admits the tenant's sessions, and logs refused connections.
class TenantDomains::TenantGate final : public rpc::Gate {
  public:
    TenantGate(session::SessionTable& sessions, uint64_t tenant, std::string name)
        : sessions_(sessions), tenant_(tenant), name_(std::move(name)) {}
    Result<rpc::Guest> admit(const rpc::HelloBody& hello, const fabric::Peer& peer) override {
        return session::admit(sessions_, {.purpose = session::Purpose::link, .tenant = tenant_},
                              name_, hello, peer);
    }
    void left(const rpc::Guest& guest) override { sessions_.detach({guest.session}); }
    void misused(const rpc::Guest& guest, const fabric::Peer& peer) override {
        session::say_misused(sessions_, name_, guest, peer);
    }
    void turned_away(const rpc::Guest& guest, const fabric::Peer& peer, const Error& error,
                     std::string_view why) override {
        session::say_turned_away(sessions_, name_, guest, peer, error, why);
    }

  private:
    session::SessionTable& sessions_;
    const uint64_t tenant_;
    const std::string name_;
};

struct TenantDomains::Tenant {
    Tenant(Reactor& reactor, rpc::ServerGroup& group, session::SessionTable& table,
           rpc::Service& service, fabric::shm::SegmentsTogether& segments, uint64_t number,
           const std::string& name)
        : number(number),
          name(name),
          gate(table, number, name),
          data(reactor, group, service, gate, &segments),
          changing(reactor, 1) {}

    const uint64_t number;
    const std::string name;
    TenantGate gate;
    daemon::DataPlane data;
    bool listens = false;
    std::set<session::SessionId> sessions;
    Semaphore changing;
    size_t turns = 0;  // includes turns that wait: the tenant stays meanwhile
};

// While it exists the tenant stays. After begin() no other turn changes it.
class TenantDomains::Turn {
  public:
    Turn(TenantDomains& domains, Tenant& tenant) : domains_(domains), tenant_(tenant) {
        ++tenant_.turns;
    }
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
        if (begun_) tenant_.changing.release();
        if (--tenant_.turns == 0 && !tenant_.listens) domains_.tenants_.erase(tenant_.number);
    }
    Task<> begin() {
        co_await tenant_.changing.acquire();
        begun_ = true;
    }

  private:
    TenantDomains& domains_;
    Tenant& tenant_;
    bool begun_ = false;
};

namespace {

// FNV-1a: the name must be the same in every process.
uint64_t number_of(std::string_view tenant) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : tenant) {
        hash ^= static_cast<uint8_t>(c);
        hash *= 0x100000001b3;
    }
    return hash;
}

// A segment takes memory when its tenant writes to it, and without swap it cannot be swapped out.
// The rest is for everything else.
uint64_t half_of_the_memory() {
    const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
    ROS2S_CHECK(pages > 0 && bytes > 0);
    return static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) / 2;
}

}  // namespace

std::string listener_suffix(std::string_view tenant) {
    return fmt::format(".{:016x}", number_of(tenant));
}

std::optional<std::string> listener_address(const daemon::Listen& place, std::string_view tenant,
                                            uint32_t attempt) {
    if (fabric::is_local(place.provider)) {
        if (attempt > 0) return std::nullopt;
        return place.address + listener_suffix(tenant);
    }
    const size_t colon = place.address.rfind(':');
    if (colon == std::string::npos || colon == 0) return std::nullopt;
    uint32_t port = 0;
    if (!parse_number(place.address.substr(colon + 1), port) || port > 65535 - listener_ports)
        return std::nullopt;
    if (attempt >= (port == 0 ? 1 : listener_ports)) return std::nullopt;
    if (port == 0) return place.address;
    return fmt::format("{}:{}", place.address.substr(0, colon),
                       port + 1 + (number_of(tenant) + attempt) % listener_ports);
}

TenantDomains::TenantDomains(Reactor& reactor, rpc::ServerGroup& group,
                             session::SessionTable& sessions, Log log)
    : reactor_(reactor),
      group_(group),
      sessions_(sessions),
      log_(std::move(log)),
      segments_{.bytes_max = half_of_the_memory()} {
    sessions_.watch(*this);
}
TenantDomains::~TenantDomains() {
    sessions_.unwatch(*this);
    ROS2S_CHECK(tenants_.empty());
}

void TenantDomains::begin(std::vector<daemon::Listen> places, daemon::ProviderNeeds needs,
                          rpc::Service& service) {
    places_ = std::move(places);
    needs_ = std::move(needs);
    service_ = &service;
    for (const daemon::Listen& place : places_) {
        if (!fabric::is_local(place.provider)) continue;
        const std::filesystem::path path(place.address);
        std::error_code failed;
        for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), failed)) {
            const std::string name = entry.path().filename();
            const std::string ours = path.filename();
            const bool is_listener =
                name.size() == ours.size() + listener_suffix_bytes &&
                name.starts_with(ours + ".") &&
                name.find_first_not_of("0123456789abcdef", ours.size() + 1) == name.npos;
            if (is_listener && entry.is_socket(failed))
                std::filesystem::remove(entry.path(), failed);
        }
    }
}

Task<Result<std::string>> TenantDomains::open(const session::Session& session, std::string provider,
                                              Report& report) {
    Tenant& tenant = tenant_of(session);
    Turn turn(*this, tenant);
    co_await turn.begin();
    ROS2S_CO_TRY(co_await listen(tenant, report));
    for (const control::DataAddress& each : tenant.data.addresses()) {
        if (each.provider != provider) continue;
        tenant.sessions.insert(session.id);
        co_return each.address;
    }
    co_return report.fail(Code::unsupported, "the provider {} is not offered here", provider);
}

TenantDomains::Tenant& TenantDomains::tenant_of(const session::Session& session) {
    auto& place = tenants_[session.tenant];
    if (place == nullptr) {
        place = std::make_unique<Tenant>(reactor_, group_, sessions_, *service_, segments_,
                                         session.tenant, session.tenant_name());
    }
    return *place;
}

Task<Result<>> TenantDomains::listen(Tenant& tenant, Report& report) {
    if (tenant.listens) co_return Result<>{};
    tenant.listens = true;
    for (const daemon::Listen& place : places_) {
        const auto listening = co_await listen_at(tenant, place, report);
        if (listening) continue;
        co_await leave(tenant);
        co_return fail(listening.error());
    }
    co_return Result<>{};
}

Task<Result<>> TenantDomains::listen_at(Tenant& tenant, const daemon::Listen& place,
                                        Report& report) {
    Result<> listening = fail(Code::busy);
    for (uint32_t attempt = 0;; ++attempt) {
        const auto address = listener_address(place, tenant.name, attempt);
        if (!address) co_return listening;  // other processes have all of them
        report = {};
        listening = co_await tenant.data.listen({.provider = place.provider, .address = *address},
                                                needs_, log_, report);
        if (listening || listening.error().code != Code::busy) co_return listening;
    }
}

void TenantDomains::session_revoked(session::Session& session) {
    const auto found = tenants_.find(session.tenant);
    if (found != tenants_.end()) found->second->data.abandon_session(session.id.value);
}

Task<> TenantDomains::session_ending(session::Session& session) {
    const auto found = tenants_.find(session.tenant);
    if (found == tenants_.end()) co_return;
    Tenant& tenant = *found->second;
    Turn turn(*this, tenant);
    co_await tenant.data.end_session(session.id.value);
    co_await turn.begin();
    tenant.sessions.erase(session.id);
    co_await leave_if_last(tenant);
}

// If other turns of the tenant wait, the last of them does it.
Task<> TenantDomains::leave_if_last(Tenant& tenant) {
    if (tenant.sessions.empty() && tenant.turns == 1) co_await leave(tenant);
}

Task<> TenantDomains::leave(Tenant& tenant) {
    tenant.listens = false;
    co_await tenant.data.drain();
    co_await tenant.data.close();
}

Task<> TenantDomains::drain() {
    std::vector<uint64_t> numbers;
    for (const auto& [number, tenant] : tenants_) numbers.push_back(number);
    for (const uint64_t number : numbers) {
        const auto found = tenants_.find(number);
        if (found == tenants_.end()) continue;
        Turn turn(*this, *found->second);
        co_await turn.begin();
        co_await found->second->data.drain();
        co_await leave_if_last(*found->second);
    }
}

std::vector<exporter::Source> TenantDomains::metrics() const {
    daemon::TenantSources all;
    for (const auto& [number, tenant] : tenants_) {
        if (!tenant->listens) continue;  // no more
        std::vector<exporter::Source> sources;
        tenant->data.add_metrics(sources);
        all.add(tenant->name, std::move(sources));
    }
    return all.take();
}

}  // namespace ros2s::dpud
