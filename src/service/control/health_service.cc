#include "health_service.h"

#include "ros2s/rights/decide.h"

namespace ros2s::control {
namespace {

constexpr std::string_view pool_prefix = "pool/";

}  // namespace

// It polls with its reactor's sleep: a change is reported within that time.
class HealthService::Watch final : public ServedCall {
  public:
    Watch(ServerCalls& gate, grpc::CallbackServerContext& context, const HealthService& service)
        : ServedCall(gate, context, Request(), Reply()),
          reactor_(gate.reactor),
          service_(service) {}

  private:
    static constexpr Duration pause = std::chrono::milliseconds(500);

    void OnWriteDone(bool) override { written_.add(); }
    // Ends with the last status: the reply is sent once more.
    Task<Result<>> handle(Served& served) override {
        const std::string& watched = static_cast<const Request&>(*request_).service();
        Reply& reply = static_cast<Reply&>(*reply_);
        uint64_t begun = 0;
        while (!service_.ended_) {
            const auto now = service_.status_of(served, watched);
            const bool is_written = written_.value() == begun;
            if (is_written && (begun == 0 || now != reply.status())) {
                reply.set_status(now);
                ++begun;
                StartWrite(&reply);
            }
            if (!co_await sleep_for(reactor_, pause, served.call.stop)) {
                co_return fail(Code::cancelled);
            }
        }
        while (written_.value() != begun) (void)co_await sleep_for(reactor_, pause);
        reply.set_status(service_.status_of(served, watched));
        co_return Result<>{};
    }
    Reactor& reactor_;
    const HealthService& service_;
    Counter written_;  // on gRPC's threads, one at a time
};

HealthService::HealthService(ServerCalls& gate, const rights::Policy& rights)
    : OfferedService(gate), rights_(rights) {
    const auto& service = *Request::descriptor()->file()->FindServiceByName("Health");
    offer(this, &HealthService::check);
    offer(*service.FindMethodByName("Watch"), [this, &gate](grpc::CallbackServerContext* context) {
        return std::make_shared<Watch>(gate, *context, *this)->begin();
    });
}

HealthService::Reply::ServingStatus HealthService::status_of(const Served& served,
                                                             const std::string& service) const {
    const auto found = serving_.find(service);
    if (found == serving_.end()) return Reply::SERVICE_UNKNOWN;
    std::string_view name = service;
    if (name.starts_with(pool_prefix)) {
        name.remove_prefix(pool_prefix.size());
        const auto seen = decide(rights_, rights_.principal(served.subject, name), {.pool = name},
                                 rights::Wanted::see_pool);
        if (seen.is_none()) return Reply::SERVICE_UNKNOWN;
    }
    return found->second ? Reply::SERVING : Reply::NOT_SERVING;
}

Task<Result<>> HealthService::check(Served& served, const Request& request, Reply& reply) {
    reply.set_status(status_of(served, request.service()));
    if (reply.status() != Reply::SERVICE_UNKNOWN) co_return Result<>{};
    co_return served.report.fail(
        Code::not_found,
        "this service has no health status: name the server (an empty name), or pool/NAME");
}

void HealthService::set_pool(const std::string& pool, bool serving) {
    if (!ended_) serving_[std::string(pool_prefix) + pool] = serving;
}

void HealthService::set_all_ended() {
    ended_ = true;
    for (auto& [service, serving] : serving_) serving = false;
}

}  // namespace ros2s::control
