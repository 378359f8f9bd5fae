// A compromised DPU, and the programs whose capabilities it has.
#pragma once
#include "delegated.h"
#include "ros2s/control/session_tickets.h"

namespace ros2s::tests {

using capability::Chain;
using capability::SigningKey;

// A compromised DPU. It has the DPU's certificate and all capabilities that tenants handed over.
class Attacker {
  public:
    Attacker(OsReactor& reactor, std::unique_ptr<ControlClient> engine)
        : reactor_(reactor), engine_(std::move(engine)), key_(SigningKey::make_seed(Secrets())) {}
    class Holder final : public control::CapabilityHolder {
      public:
        explicit Holder(const SigningKey& key) : key_(key) {}
        [[nodiscard]] Chain chain() const override { return links; }
        [[nodiscard]] std::string prove(const Chain& chain, std::string_view nonce,
                                        session::SessionId session,
                                        std::string_view provider) const override {
            if (!replayed.empty()) return replayed;
            last = key_.sign(capability::proof_message(
                nonce_of ? *nonce_of : nonce, session.value + session_off, provider, chain));
            return last;
        }
        Chain links;
        std::string replayed;
        std::optional<std::string> nonce_of;
        uint64_t session_off = 0;
        mutable std::string last;

      private:
        const SigningKey& key_;
    };
    [[nodiscard]] const SigningKey& key() const { return key_; }
    // The engine's answer to a session that shows the chain.
    Result<> show(const Holder& holder) {
        report_ = {};
        const control::SessionOptions wanted{.client = Uuid::make(reactor_.secrets()),
                                             .purpose = session::Purpose::store,
                                             .pool = "pool",
                                             .program = "attack",
                                             .providers = {"shm"},
                                             .holder = &holder};
        return on(reactor_, [&] { return show_here(*this, wanted); });
    }
    [[nodiscard]] std::string said() const { return report_.text(); }
    [[nodiscard]] ControlClient& engine() { return *engine_; }

  private:
    static Task<Result<>> show_here(Attacker& self, control::SessionOptions wanted) {
        control::SessionTickets tickets(self.reactor_, *self.engine_, std::move(wanted));
        const auto opened = co_await tickets.open({}, self.report_);
        if (!opened) co_return fail(opened.error());
        // Without a capability there is no ticket; with one, further tickets can be issued.
        const auto more = co_await self.engine_->issue_ticket(call, opened->id, self.report_);
        co_await tickets.close();
        if (!more) co_return fail(more.error());
        co_return Result<>{};
    }
    OsReactor& reactor_;
    std::unique_ptr<ControlClient> engine_;
    SigningKey key_;
    Report report_;
};

// A program of a tenant that signs any capability.
struct Program {
    Program(OsReactor& on_reactor, std::unique_ptr<ControlClient> dpu)
        : reactor(on_reactor), control(std::move(dpu)), key(SigningKey::make_seed(Secrets())) {}
    Result<std::string> issue(capability::Use use) {
        const auto known =
            on(reactor, [&] { return control->describe_capabilities(call, "pool", report); });
        if (!known) return fail(known.error());
        return issue(known->audience, std::move(use));
    }
    Result<std::string> issue(Uuid audience, capability::Use use) {
        report = {};
        return on(reactor, [&] {
            return control->issue_capability(
                call, "pool", {.use = use, .audience = audience, .holder = key.shown()}, report);
        });
    }
    // The second link, for this holder, after `change`.
    template <class Change>
    Chain delegate(const std::string& root, const capability::PublicKey& holder, Change change) {
        auto second = *capability::decode(root);
        second.depth = 2;
        second.issuer = key.shown();
        second.holder = holder;
        second.parent = capability::hash_of(root);
        change(second);
        return {root, capability::sign(second, key)};
    }
    Chain delegate(const std::string& root, const capability::PublicKey& holder) {
        return delegate(root, holder, [](capability::Capability&) {});
    }
    OsReactor& reactor;
    std::unique_ptr<ControlClient> control;
    SigningKey key;
    Report report;
};

inline constexpr auto denied = [](const auto& result) {
    return !result && result.error().code == Code::denied;
};

// The request of a program that only reads `main`.
inline capability::Use reading_main() {
    return {.rights = rights::Right::read, .directories = false, .container = {"main"}};
}

}  // namespace ros2s::tests
