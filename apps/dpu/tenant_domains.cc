#include "tenant_domains.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "ros2s/base/log_fields.h"

namespace ros2s::dpud {

// Lets the tenant's sessions in, and says who else came.
class TenantDomains::Door final : public rpc::Gate {
  public:
    Door(session::SessionTable& sessions, uint64_t tenant, std::string subject)
        : sessions_(sessions), tenant_(tenant), subject_(std::move(subject)) {}
    Result<rpc::Guest> admit(const rpc::HelloBody& hello, const fabric::Peer& peer) override {
        return session::admit(sessions_, {.purpose = session::Purpose::link, .tenant = tenant_},
                              subject_, hello, peer);
    }
    void left(const rpc::Guest& guest) override { sessions_.detach({guest.session}); }
    void misused(const rpc::Guest& guest, const fabric::Peer& peer) override {
        sessions_.audit().say(
            fmt::format("session {} of {} ({}) named memory of somebody else in a request: refused",
                        guest.session, subject_, peer.name),
            log_fields({{"session", fmt::to_string(guest.session)},
                        {"tenant", subject_},
                        {"peer", peer.name}}));
    }

  private:
    session::SessionTable& sessions_;
    const uint64_t tenant_;
    const std::string subject_;
};

struct TenantDomains::Tenant {
    Tenant(Reactor& reactor, session::SessionTable& table, rpc::Service& service, uint64_t number,
           const std::string& name)
        : subject(name), door(table, number, name), data(reactor, service, door) {}

    const std::string subject;
    Door door;
    daemon::DataPlane data;
    std::set<session::SessionId> sessions;
};

namespace {

// FNV-1a: the name must be the same in every process.
uint64_t number_of(std::string_view subject) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : subject) {
        hash ^= static_cast<uint8_t>(c);
        hash *= 0x100000001b3;
    }
    return hash;
}

}  // namespace

std::string door_suffix(std::string_view subject) {
    return fmt::format(".{:016x}", number_of(subject));
}

std::optional<std::string> door_address(const daemon::Listen& place, std::string_view subject,
                                        uint32_t attempt) {
    if (place.provider == "shm") {
        if (attempt > 0) return std::nullopt;
        return place.address + door_suffix(subject);
    }
    const size_t colon = place.address.rfind(':');
    if (colon == std::string::npos || colon == 0) return std::nullopt;
    const char* const end = place.address.data() + place.address.size();
    uint32_t port = 0;
    const auto read = std::from_chars(place.address.data() + colon + 1, end, port);
    if (read.ec != std::errc{} || read.ptr != end || port > 65535 - door_ports) return std::nullopt;
    if (attempt >= (port == 0 ? 1 : door_ports)) return std::nullopt;
    if (port == 0) return place.address;
    return fmt::format("{}:{}", place.address.substr(0, colon),
                       port + 1 + (number_of(subject) + attempt) % door_ports);
}

TenantDomains::TenantDomains(Reactor& reactor, session::SessionTable& sessions, Log log)
    : reactor_(reactor), sessions_(sessions), log_(std::move(log)), changing_(reactor, 1) {
    sessions_.watch(*this);
}
TenantDomains::~TenantDomains() {
    sessions_.unwatch(*this);
    ROS2S_CHECK(tenants_.empty());
}

void TenantDomains::begin(std::vector<daemon::Listen> places, std::string device,
                          rpc::Service& service) {
    places_ = std::move(places);
    device_ = std::move(device);
    service_ = &service;
    for (const daemon::Listen& place : places_) {
        if (place.provider != "shm") continue;
        const std::filesystem::path path(place.address);
        std::error_code failed;
        for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), failed)) {
            const std::string name = entry.path().filename();
            const std::string ours = path.filename();
            const bool is_door =
                name.size() == ours.size() + door_suffix_bytes && name.starts_with(ours + ".") &&
                name.find_first_not_of("0123456789abcdef", ours.size() + 1) == name.npos;
            if (is_door && entry.is_socket(failed)) std::filesystem::remove(entry.path(), failed);
        }
    }
}

Task<Result<std::string>> TenantDomains::open(const session::Session& session, std::string provider,
                                              Report& report) {
    co_await changing_.acquire();
    const SemaphoreHold hold(changing_);
    ROS2S_CO_TRY_ASSIGN(Tenant* const tenant, co_await enter(session, report));
    for (const control::DataAddress& each : tenant->data.addresses()) {
        if (each.provider != provider) continue;
        tenant->sessions.insert(session.id);
        co_return each.address;
    }
    co_return report.fail(Code::unsupported,
                          fmt::format("the provider {} is not offered here", provider));
}

Task<Result<TenantDomains::Tenant*>> TenantDomains::enter(const session::Session& session,
                                                          Report& report) {
    if (const auto found = tenants_.find(session.tenant); found != tenants_.end()) {
        co_return found->second.get();
    }
    const std::string& subject = session.request.subject;
    auto made = std::make_unique<Tenant>(reactor_, sessions_, *service_, session.tenant, subject);
    const auto listening = co_await listen(*made, subject, report);
    if (!listening) {
        co_await made->data.drain();
        co_await made->data.close();
        co_return fail(listening.error());
    }
    co_return tenants_.emplace(session.tenant, std::move(made)).first->second.get();
}

Task<Result<>> TenantDomains::listen(Tenant& tenant, const std::string& subject, Report& report) {
    for (const daemon::Listen& place : places_) {
        ROS2S_CO_TRY(co_await listen_at(tenant, place, subject, report));
    }
    co_return Result<>{};
}

Task<Result<>> TenantDomains::listen_at(Tenant& tenant, const daemon::Listen& place,
                                        const std::string& subject, Report& report) {
    Result<> listening = fail(Code::busy);
    for (uint32_t attempt = 0;; ++attempt) {
        const auto address = door_address(place, subject, attempt);
        if (!address) co_return listening;  // others have them all
        report = {};
        listening = co_await tenant.data.listen({.provider = place.provider, .address = *address},
                                                device_, log_, report);
        if (listening || listening.error().code != Code::busy) co_return listening;
    }
}

Task<> TenantDomains::session_ending(session::Session& session) {
    const auto found = tenants_.find(session.tenant);
    if (found == tenants_.end()) co_return;
    co_await found->second->data.end_session(session.id.value);
    co_await changing_.acquire();
    const SemaphoreHold hold(changing_);
    const auto still = tenants_.find(session.tenant);
    if (still == tenants_.end()) co_return;
    still->second->sessions.erase(session.id);
    if (still->second->sessions.empty()) co_await leave(session.tenant);
}

Task<> TenantDomains::leave(uint64_t number) {
    Tenant& tenant = *tenants_.at(number);
    co_await tenant.data.drain();
    co_await tenant.data.close();
    tenants_.erase(number);
}

Task<> TenantDomains::drain() {
    co_await changing_.acquire();
    const SemaphoreHold hold(changing_);
    for (const auto& [number, tenant] : tenants_) co_await tenant->data.drain();
}

std::vector<exporter::Source> TenantDomains::metrics() const {
    std::vector<exporter::Source> all;
    std::map<std::string, std::pair<std::string, uint64_t>, std::less<>> others;
    const auto add = [&others](std::string_view name, std::string_view help, uint64_t value) {
        auto& [text, sum] = others[std::string(name)];
        text = help;
        sum += value;
    };
    size_t labelled = 0;
    for (const auto& [number, tenant] : tenants_) {
        std::vector<exporter::Source> sources;
        tenant->data.add_metrics(sources);
        const bool has_label = labelled++ < labels_max;
        for (exporter::Source& source : sources) {
            if (!has_label) {
                source.list(add);
                continue;
            }
            source.labels.emplace_back("tenant", tenant->subject);
            all.push_back(std::move(source));
        }
    }
    if (others.empty()) return all;
    all.push_back({.labels = {{"tenant", "(others)"}},
                   .list = [others = std::move(others)](const MetricVisitor& visit) {
                       for (const auto& [name, value] : others) {
                           visit(name, value.first, value.second);
                       }
                   }});
    return all;
}

}  // namespace ros2s::dpud
