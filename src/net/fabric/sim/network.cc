#include "ros2s/fabric/sim/network.h"

#include <algorithm>
#include <deque>

#include "link.h"
#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fabric::sim {

class SimDomain final : public Domain, private Poller {
  public:
    SimDomain(Network& network, Reactor& core, std::string process, std::string provider)
        : network_(network),
          core_(core),
          process_(std::move(process)),
          provider_(std::move(provider)),
          id_(core.secrets().next()) {
        core_.attach(*this);
    }
    ~SimDomain() override { ROS2S_CHECK(closed_); }

    const std::string& provider() const noexcept override { return provider_; }
    uint64_t id() const noexcept override { return id_; }
    Counters& counters() noexcept override { return counters_; }
    Task<Result<std::unique_ptr<Listener>>> listen(std::string address, ListenOptions options,
                                                   Report& report) override;
    Task<Result<std::unique_ptr<Endpoint>>> connect(std::string address, ConnectOptions options,
                                                    Report& report) override;
    Task<> close() override {
        if (!closed_) core_.detach(*this);
        closed_ = true;
        co_return;
    }

    [[nodiscard]] Hello introduce(const Limits& limits) const {
        Hello hello = PacketEndpoint::introduce(*this, limits);
        hello.seal();
        return hello;
    }
    [[nodiscard]] std::unique_ptr<Endpoint> make_endpoint(std::shared_ptr<Link> link,
                                                          bool initiates, const Limits& limits,
                                                          const Hello& peer, uint64_t session) {
        const size_t side = initiates ? 1 : 0;
        PacketConnection packet_session{
            .provider = provider_,
            .domain = id_,
            .session = session,
            .peer = peer,
            .peer_name = link->processes_[1 - side] + " (" + provider_ + ")",
            .initiates = initiates};
        return std::make_unique<PacketEndpoint>(
            core_, counters_, flusher_, limits, std::move(packet_session),
            std::make_unique<SimWire>(core_, std::move(link), side));
    }

    Network& network_;
    Reactor& core_;
    const std::string process_;

  private:
    bool poll() noexcept override { return flusher_.flush(); }
    bool prepare_sleep() noexcept override { return flusher_.empty(); }

    const std::string provider_;
    const uint64_t id_;
    Counters counters_;
    Flusher flusher_;
    bool closed_ = false;
};

class SimListener final : public Listener {
  public:
    SimListener(SimDomain& domain, std::string address, ListenOptions options)
        : domain_(domain), address_(std::move(address)), options_(options), arrival_(domain.core_) {
        options_.limits = PacketEndpoint::normalized(options_.limits);
        domain_.network_.listeners_[address_] = this;
    }
    ~SimListener() override { ROS2S_CHECK(closed_); }
    const std::string& address() const noexcept override { return address_; }
    Task<Result<std::unique_ptr<Endpoint>>> accept(StopToken stop) override;
    Task<> close() override {
        if (closed_) co_return;
        closed_ = true;
        domain_.network_.listeners_.erase(address_);
        for (Waiting& waiting : waiting_) {
            if (options_.peer_check != nullptr) options_.peer_check->withdraw(waiting.session);
            waiting.link->lose();
            domain_.network_.remove(*waiting.link);
        }
        waiting_.clear();
        arrival_.wake_all();
    }

    // The listener's answer to the hello and the credential from the link.
    [[nodiscard]] Hello take(ConstBytes bytes, const ConnectOptions& from,
                             const std::shared_ptr<Link>& link) {
        Hello answer = domain_.introduce(options_.limits);
        const auto hello = Hello::decode(bytes);
        answer.answer = answer_to(hello, domain_.provider());
        if (answer.answer == Answer::welcome && waiting_.size() >= options_.handshakes_max) {
            answer.answer = Answer::busy;
        }
        if (from.credential.size() > PeerCheck::credential_bytes_max) {
            answer.answer = Answer::refused;
        }
        answer.session = domain_.core_.secrets().next();
        if (answer.answer == Answer::welcome && options_.peer_check != nullptr) {
            const Peer peer{.name = link->processes_[0] + " (" + domain_.provider() + ")"};
            auto verdict = options_.peer_check->admit(answer.session, from.credential, peer);
            if (!verdict.admitted) answer.answer = Answer::refused;
            if (from.verdict != nullptr) *from.verdict = std::move(verdict.said);
        }
        answer.seal();
        if (answer.answer != Answer::welcome) {
            domain_.counters().handshakes_refused.add();
        } else {
            waiting_.push_back({link, *hello, answer.session});
            arrival_.wake_all();
        }
        return answer;
    }
    [[nodiscard]] const std::string& process() const { return domain_.process_; }

  private:
    struct Waiting {
        std::shared_ptr<Link> link;
        Hello hello;
        uint64_t session;
    };
    SimDomain& domain_;
    const std::string address_;
    ListenOptions options_;
    std::deque<Waiting> waiting_;
    Event arrival_;
    bool closed_ = false;
};

Task<Result<std::unique_ptr<Endpoint>>> SimListener::accept(StopToken stop) {
    const WakeOnStop wake(stop, arrival_);
    while (waiting_.empty()) {
        if (closed_) co_return fail(Code::closed);
        if (stop.stop_requested()) co_return fail(Code::cancelled);
        co_await arrival_;
    }
    Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    co_return domain_.make_endpoint(std::move(waiting.link), true, options_.limits, waiting.hello,
                                    waiting.session);
}

Task<Result<std::unique_ptr<Listener>>> SimDomain::listen(std::string address,
                                                          ListenOptions options, Report& report) {
    if (network_.listeners_.contains(address)) {
        co_return report.fail(Code::busy, "the address " + address +
                                              " is in use: stop who listens there, or choose "
                                              "another");
    }
    co_return std::make_unique<SimListener>(*this, std::move(address), options);
}

Task<Result<std::unique_ptr<Endpoint>>> SimDomain::connect(std::string address,
                                                           ConnectOptions options, Report& report) {
    options.limits = PacketEndpoint::normalized(options.limits);
    const Time deadline = core_.now() + options.within;
    const Duration there = network_.draw_delay();
    if (!co_await sleep_for(core_, there, options.stop)) co_return fail(Code::cancelled);
    const auto found = network_.listeners_.find(address);
    if (found == network_.listeners_.end()) {
        co_return report.fail(Code::disconnected,
                              "no process listens at " + address + ": is the server running?");
    }
    const std::string server = found->second->process();
    if (network_.processes_[server].stalled) {
        if (!co_await sleep_until(core_, deadline, options.stop)) co_return fail(Code::cancelled);
        co_return report.fail(Code::deadline, address + " does not answer");
    }
    auto link = std::make_shared<Link>(network_, process_, server);
    const Hello hello = introduce(options.limits);
    const Hello answer = found->second->take(object_bytes(hello), options, link);
    network_.add(link);
    const Duration back = network_.draw_delay();
    if (!co_await sleep_for(core_, back, options.stop)) {
        link->lose();
        co_return fail(Code::cancelled);
    }
    const auto checked =
        check_answer(Hello::decode(object_bytes(answer)), address, provider_, report);
    if (!checked) {
        network_.remove(*link);
        co_return fail(checked.error());
    }
    co_return make_endpoint(std::move(link), false, options.limits, answer, answer.session);
}

Network::~Network() { ROS2S_CHECK(listeners_.empty()); }

std::unique_ptr<Domain> Network::open_domain(Reactor& core, std::string process,
                                             std::string provider) {
    return std::make_unique<SimDomain>(*this, core, std::move(process), std::move(provider));
}

void Network::kill(const std::string& process) {
    for (const auto& link : links_) {
        if (std::ranges::count(link->processes_, process) > 0) link->lose();
    }
}

void Network::kill_after(const std::string& process, uint64_t bytes) {
    processes_[process].dies = true;
    processes_[process].dies_after = bytes;
}

void Network::stall(const std::string& process, bool stalled) {
    processes_[process].stalled = stalled;
    for (const auto& link : links_) link->wake();
}

Duration Network::draw_delay() {
    const auto span = static_cast<uint64_t>((model_.delay_most - model_.delay_least).count());
    return model_.delay_least + Duration{random_.below(span + 1)};
}

bool Network::moved(const std::string& process, uint64_t bytes) {
    Process& counted = processes_[process];
    if (!counted.dies) return false;
    if (bytes < counted.dies_after) {
        counted.dies_after -= bytes;
        return false;
    }
    counted.dies = false;
    kill(process);
    return true;
}

void Network::add(std::shared_ptr<Link> link) { links_.push_back(std::move(link)); }
void Network::remove(const Link& link) {
    std::erase_if(links_, [&link](const auto& each) { return each.get() == &link; });
}

}  // namespace ros2s::fabric::sim
