#include "trust.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ros2s::control {
namespace {

constexpr Duration check_interval = std::chrono::seconds(1);
// A chain is kept as long as its session, and peers choose what they append to it.
constexpr size_t chain_bytes_max = 16 << 10;

}  // namespace

void Trust::begin() { (void)files_.look(pem_); }

const Trust::CachedResult& Trust::result_of(const std::string& chain) {
    const auto found = results_.find(chain);
    if (found != results_.end() && reactor_.now() < found->second.look_again) return found->second;
    if (results_.size() >= results_max) results_.clear();
    Report why;
    const auto now = std::chrono::floor<std::chrono::seconds>(reactor_.wall_time());
    const auto until = pki::verify_client(chain, pem_.authority, pem_.revocations, now, why);
    CachedResult known =
        until ? CachedResult{.until = *until} : CachedResult{.why_not = why.text()};
    if (!until) known.look_again = reactor_.now() + check_interval;
    return results_.insert_or_assign(chain, std::move(known)).first->second;
}

Result<WallTime> Trust::check(const std::string& subject, const std::string& chain,
                              Report& report) {
    if (chain.size() > chain_bytes_max) {
        return report.fail(Code::denied,
                           "the certificate of {} came with other certificates, {} bytes, more "
                           "than {} in all; send only the client's certificate",
                           subject, chain.size(), chain_bytes_max);
    }
    const CachedResult& known = result_of(chain);
    // WallTime ends in 2262.
    constexpr auto last = std::chrono::floor<std::chrono::seconds>(WallTime::max());
    const WallTime until(std::min<pki::Seconds>(known.until, last));
    if (reactor_.wall_time() < until) return until;
    return report.fail(Code::denied, "the certificate of {} is no longer valid here: {}", subject,
                       known.why_not.empty() ? fmt::format("it expired at {}; get a new one",
                                                           pki::to_string(known.until))
                                             : known.why_not);
}

Task<> Trust::watch(StopToken stop) {
    while (co_await sleep_for(reactor_, check_interval, stop)) {
        pki::Pem fresh;
        const auto looked = co_await blocking_.run(
            reactor_, [&]() -> Result<pki::WatchedIdentity::Look> { return files_.look(fresh); });
        if (!looked || *looked != pki::WatchedIdentity::Look::changed) continue;
        const bool is_new =
            fresh.authority != pem_.authority || fresh.revocations != pem_.revocations;
        pem_ = std::move(fresh);
        if (is_new) evict_strangers();
    }
}

void Trust::evict_strangers() {
    results_.clear();
    std::vector<session::SessionId> ids;
    for (const session::Session* session : sessions_.all()) ids.push_back(session->id);
    for (const session::SessionId id : ids) {
        const session::Session* const session = sessions_.look(id);
        if (session == nullptr) continue;
        Report why;
        if (check(session->request.subject, session->credential.chain, why)) continue;
        sessions_.evict(id, why.text());
    }
}

}  // namespace ros2s::control
