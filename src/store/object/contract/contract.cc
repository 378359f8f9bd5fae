#include "contract.h"

#include "probe.h"

namespace ros2s::object::contract {
namespace {

Task<> open_and_run(Probe& probe, Task<> (*body)(Probe&)) {
    co_await probe.open();
    if (!testing::Test::HasFailure()) co_await body(probe);
}

class ContractTest : public testing::Test {
  public:
    ContractTest(const Case& contract_case, const Factory& factory)
        : case_(contract_case), factory_(factory) {}

    void TestBody() override {
        const std::unique_ptr<contract::Setup> setup = factory_(case_.needs);
        ASSERT_NE(setup, nullptr);
        if (case_.applies != nullptr && !case_.applies(setup->store().features())) {
            GTEST_SKIP() << "the store does not declare the feature";
        }
        Probe probe(*setup);
        setup->run(open_and_run(probe, case_.body));
    }

  private:
    Case case_;
    Factory factory_;
};

}  // namespace

bool register_contract(const std::string& name, const Factory& factory) {
    for (const auto& cases :
         {array_cases(), seal_cases(), value_cases(), condition_cases(), transaction_cases(),
          reply_cases(), pin_cases(), lock_cases(), lease_cases(), chain_cases(), limit_cases(),
          list_cases(), container_cases(), concurrency_cases(), property_cases()}) {
        for (const Case& each : cases) {
            testing::RegisterTest(
                name.c_str(), each.name, nullptr, nullptr, __FILE__, __LINE__,
                [each, factory]() -> testing::Test* { return new ContractTest(each, factory); });
        }
    }
    return true;
}

}  // namespace ros2s::object::contract
