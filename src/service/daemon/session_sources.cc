#include "ros2s/daemon/session_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <ranges>
#include <utility>

#include "ros2s/daemon/tenant_sources.h"

namespace ros2s::daemon {
namespace {

constexpr std::string_view others = "(others)";
constexpr size_t tenants_max = TenantSources::labels_max;
constexpr size_t sessions_max = 64;  // of a tenant
constexpr size_t in_all_max = 512;
constexpr size_t containers_shown_max = 4;  // in a label

struct Work {
    std::array<uint64_t, rpc::GuestMetrics::kinds.size()> requests{};
    uint64_t bytes = 0, busy_ns = 0;
    NotDurable not_durable{};
    void add(const rpc::GuestMetrics& more) {
        for (size_t i = 0; i < requests.size(); ++i) requests[i] += more.requests[i].value();
        bytes += more.bytes.value();
        busy_ns += more.busy_ns.value();
    }
    void add(const Work& more) {
        for (size_t i = 0; i < requests.size(); ++i) requests[i] += more.requests[i];
        bytes += more.bytes;
        busy_ns += more.busy_ns;
        add(more.not_durable);
    }
    void add(const NotDurable& more) {
        not_durable.changes += more.changes;
        not_durable.bytes += more.bytes;
        not_durable.age = std::max(not_durable.age, more.age);
    }
};

using Labels = std::vector<std::pair<std::string, std::string>>;

Labels labels_of(std::string_view tenant, std::string_view session, std::string_view process,
                 std::string_view container) {
    return {{"tenant", std::string(tenant)},
            {"session", std::string(session)},
            {"process", std::string(process)},
            {"container", std::string(container)}};
}

// "main/a, main/b", or the pool.
std::string container_of(const std::string& pool, std::vector<std::string> containers) {
    if (containers.empty()) return pool;
    std::ranges::sort(containers);
    containers.erase(std::ranges::unique(containers).begin(), containers.end());
    std::string text;
    for (const std::string& each : containers | std::views::take(containers_shown_max)) {
        text += fmt::format("{}{}/{}", text.empty() ? "" : ", ", pool, each);
    }
    if (containers.size() > containers_shown_max) {
        text += fmt::format(" and {} more", containers.size() - containers_shown_max);
    }
    return text;
}

void list(const Labels& labels, const Work& work, std::vector<exporter::Source>& sources) {
    for (size_t i = 0; i < work.requests.size(); ++i) {
        Labels with_kind = labels;
        with_kind.emplace_back("kind", rpc::GuestMetrics::kinds[i]);
        sources.push_back({.labels = std::move(with_kind),
                           .list = [count = work.requests[i]](const MetricVisitor& visit) {
                               visit("ros2store_session_requests_total",
                                     "Requests of a session, by kind", count);
                           }});
    }
    sources.push_back(
        {.labels = labels, .list = [work](const MetricVisitor& visit) {
             visit("ros2store_session_bytes_total", "Payload of the requests of a session",
                   work.bytes);
             visit("ros2store_session_busy_seconds_total",
                   "Time of a session's requests, from arrival to reply", work.busy_ns);
             const NotDurable& not_durable = work.not_durable;
             visit("ros2store_session_volatile_changes",
                   "Acknowledged changes of a session that are not durable yet",
                   not_durable.changes);
             visit("ros2store_session_volatile_bytes", "Their payload", not_durable.bytes);
             visit("ros2store_session_volatile_milliseconds",
                   "For so long the first of them has waited",
                   static_cast<uint64_t>(not_durable.age / std::chrono::milliseconds(1)));
         }});
}

}  // namespace

std::vector<exporter::Source> sources_of(const session::SessionTable& sessions,
                                         const ContainersOf& containers_of,
                                         const NotDurableOf& not_durable_of) {
    std::vector<exporter::Source> sources;
    std::map<std::string, size_t, std::less<>> tenants;
    std::map<std::string, Work, std::less<>> summed;  // by tenant
    size_t listed = 0;
    for (const session::Session* const each : sessions.all()) {
        const std::string& tenant = each->tenant_name();
        Work work;
        work.add(*each->metrics);
        work.add(not_durable_of(*each));
        if (!tenants.contains(tenant) && tenants.size() == tenants_max) {
            summed[std::string(others)].add(work);
        } else if (listed == in_all_max || tenants[tenant] == sessions_max) {
            summed[tenant].add(work);
        } else {
            ++listed;
            ++tenants[tenant];
            list(labels_of(tenant, std::to_string(each->id.value), each->request.program,
                           container_of(each->request.pool, containers_of(*each))),
                 work, sources);
        }
    }
    for (const auto& [tenant, work] : summed) {
        list(labels_of(tenant, others, others, others), work, sources);
    }
    return sources;
}

}  // namespace ros2s::daemon
