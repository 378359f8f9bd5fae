#include "contract.h"

#include "cases.h"

namespace ros2s::device::contract {
namespace {

Task<> open_run_close(Probe& probe, Task<> (*body)(Probe&)) {
    if (!co_await probe.open()) co_return;
    co_await body(probe);
    co_await probe.close();
}

class ContractTest : public testing::Test {
  public:
    ContractTest(const Case& contract_case, const Factory& factory)
        : case_(contract_case), factory_(factory) {}

    void TestBody() override {
        const std::unique_ptr<contract::Setup> setup = factory_();
        ASSERT_NE(setup, nullptr);
        Probe probe{.setup = *setup, .reactor = setup->reactor(), .device = nullptr};
        setup->run(open_run_close(probe, case_.body));
    }

  private:
    Case case_;
    Factory factory_;
};

}  // namespace

bool register_contract(const std::string& name, const Factory& factory) {
    for (const auto& cases : {transfer_cases(), lifetime_cases()}) {
        for (const Case& each : cases) {
            testing::RegisterTest(
                name.c_str(), each.name, nullptr, nullptr, __FILE__, __LINE__,
                [each, factory]() -> testing::Test* { return new ContractTest(each, factory); });
        }
    }
    return true;
}

Task<bool> Probe::open() {
    Report report;
    auto opened = co_await setup.open(report);
    EXPECT_TRUE(opened) << report.text();
    if (!opened) co_return false;
    device = std::move(*opened);
    co_return true;
}

Task<> Probe::close() {
    if (device == nullptr) co_return;
    co_await device->close();
    device.reset();
}

void fill_blocks(Bytes bytes, uint64_t first_block, uint64_t stamp) {
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
        const uint64_t word =
            (first_block * block_bytes + at) * 0x9e3779b97f4a7c15 ^ stamp * 0xbf58476d1ce4e5b9;
        std::memcpy(bytes.data() + at, &word, sizeof word);
    }
}

bool holds_blocks(ConstBytes bytes, uint64_t first_block, uint64_t stamp) {
    AlignedBuffer expected(bytes.size());
    fill_blocks(expected.bytes(), first_block, stamp);
    return std::memcmp(expected.data(), bytes.data(), bytes.size()) == 0;
}

Task<> write_blocks(Probe& probe, uint64_t first_block, uint64_t count, uint64_t stamp) {
    AlignedBuffer buffer(count * block_bytes);
    fill_blocks(buffer.bytes(), first_block, stamp);
    const auto written = co_await probe.device->write(first_block * block_bytes, buffer.bytes());
    EXPECT_TRUE(written) << describe(written.error());
}

Task<> cache_blocks(Probe& probe, uint64_t first_block, uint64_t count, uint64_t stamp) {
    AlignedBuffer buffer(count * block_bytes);
    fill_blocks(buffer.bytes(), first_block, stamp);
    const auto written =
        co_await probe.device->write_cached(first_block * block_bytes, buffer.bytes());
    EXPECT_TRUE(written) << describe(written.error());
}

Task<> expect_blocks(Probe& probe, uint64_t first_block, uint64_t count, uint64_t stamp) {
    AlignedBuffer buffer(count * block_bytes);
    std::memset(buffer.data(), 0xee, buffer.size());
    const auto got = co_await probe.device->read(first_block * block_bytes, buffer.bytes());
    EXPECT_TRUE(got) << describe(got.error());
    EXPECT_TRUE(holds_blocks(buffer.bytes(), first_block, stamp))
        << count << " blocks at block " << first_block;
}

}  // namespace ros2s::device::contract
