// Opening, closing, and having one owner.
#include "cases.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::device::contract {
namespace {

Task<> keeps_flushed_content(Probe& probe) {
    co_await write_blocks(probe, 7, 9, 1);
    co_await cache_blocks(probe, 16, 9, 2);
    EXPECT_TRUE(co_await probe.device->flush());
    const uint64_t size = probe.device->size();
    co_await probe.close();
    if (!co_await probe.open()) co_return;
    EXPECT_EQ(probe.device->size(), size);
    co_await expect_blocks(probe, 7, 9, 1);
    co_await expect_blocks(probe, 16, 9, 2);
}

Task<> keeps_unflushed_content_over_a_close(Probe& probe) {
    co_await write_blocks(probe, 7, 9, 1);
    co_await cache_blocks(probe, 10, 2, 2);
    co_await probe.close();
    if (!co_await probe.open()) co_return;
    co_await expect_blocks(probe, 7, 3, 1);
    co_await expect_blocks(probe, 10, 2, 2);
    co_await expect_blocks(probe, 12, 4, 1);
}

Task<> has_one_opener(Probe& probe) {
    Report report;
    const auto second = co_await probe.setup.open(report);
    EXPECT_FALSE(second);
    if (second) co_return;
    EXPECT_EQ(second.error().code, Code::busy);
    EXPECT_NE(report.text().find(probe.device->name()), std::string::npos) << report.text();
    // The first one still works, and the next one gets the device.
    co_await write_blocks(probe, 1, 1, 1);
    co_await probe.close();
    if (co_await probe.open()) co_await expect_blocks(probe, 1, 1, 1);
}

Task<> count_write(Probe& probe, uint64_t block, int& done) {
    co_await write_blocks(probe, block, 1, block);
    ++done;
}
Task<> close_waits(Probe& probe) {
    int done = 0;
    Nursery nursery(probe.reactor, 32);
    for (uint64_t i = 0; i < 32; ++i) co_await nursery.spawn(count_write(probe, i, done));
    co_await probe.device->close();
    // Their waiters may run after ours; the transfers themselves have ended.
    co_await nursery.join();
    EXPECT_EQ(done, 32);
    probe.device.reset();
    if (!co_await probe.open()) co_return;
    for (uint64_t i = 0; i < 32; ++i) co_await expect_blocks(probe, i, 1, i);
}

}  // namespace

std::vector<Case> lifetime_cases() {
    return {{"FlushedContentSurvivesReopening", keeps_flushed_content},
            {"UnflushedContentSurvivesACleanClose", keeps_unflushed_content_over_a_close},
            {"SecondOpenerIsRefused", has_one_opener},
            {"CloseWaitsForTransfers", close_waits}};
}

}  // namespace ros2s::device::contract
