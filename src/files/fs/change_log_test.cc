#include "change_log.h"

#include <gtest/gtest.h>

#include <cstring>

#include "records.h"
#include "ros2s/object/checksum.h"

namespace ros2s::fs {
namespace {

using object::Epoch;

const Uuid mount{.bytes = {1}}, neighbour{.bytes = {2}};

// The bytes are the caller's.
object::Transaction writing(uint64_t sequence, std::string_view bytes) {
    object::Transaction transaction{
        .id = {.client = mount, .sequence = sequence}, .is_new = true, .deferred = true};
    transaction.operations.push_back({.kind = object::Operation::Kind::write,
                                      .object = {1, 1},
                                      .dkey = {"d"},
                                      .akey = {"a"},
                                      .extent = {0, bytes.size()},
                                      .window = object::Window::local(as_bytes(bytes))});
    return transaction;
}

TEST(ChangeLog, ChangeKeepsItsPayloadWhenTheCallersIsGone) {
    ChangeLog log(nullptr, 0, mount);
    std::string bytes = "acknowledged";
    const object::Transaction transaction = writing(1, bytes);
    const uint64_t digest = object::digest_of(transaction);
    log.add(transaction, Epoch{5}, 1);
    bytes.assign(bytes.size(), '-');
    const auto& kept = log.changes().at(Epoch{5}).transaction;
    EXPECT_EQ(as_text(kept.operations.front().window.bytes()), "acknowledged");
    EXPECT_TRUE(kept.was_lost && !kept.is_new);
    EXPECT_EQ(kept.id.digest, digest);
}

// The memory of a host may change between the store's copy and this one.
TEST(ChangeLog, ChecksumsOfSharedMemoryAreThoseOfTheCopy) {
    ChangeLog log(nullptr, 0, mount);
    object::Transaction transaction = writing(1, "changed since");
    object::Operation& operation = transaction.operations.front();
    operation.window.shared = true;
    operation.checksums = {12345};
    log.add(transaction, Epoch{5}, 1);
    const object::Operation& kept = log.changes().at(Epoch{5}).transaction.operations.front();
    EXPECT_TRUE(object::array_checksums_match(0, kept.window.bytes(), kept.checksums));
}

TEST(ChangeLog, ConditionNamesTheEpochThatTheChangeHasNow) {
    ChangeLog log(nullptr, 0, mount);
    for (uint64_t epoch : {5, 6}) log.add(writing(epoch, "x"), Epoch{epoch}, 1);
    EXPECT_FALSE(log.may_name_old_epochs());
    log.repeated(log.changes().begin(), Epoch{105}, 2);
    EXPECT_TRUE(log.may_name_old_epochs());
    const auto now = [&log](uint64_t epoch) {
        object::Transaction transaction;
        transaction.conditions.push_back(
            {.kind = object::Condition::Kind::epoch_equals, .value = epoch});
        std::string inodes;
        log.replace_old_epochs(transaction, inodes);
        return transaction.conditions.front().value;
    };
    EXPECT_EQ(now(5), 105U);
    EXPECT_EQ(now(6), 6U);
    EXPECT_EQ(now(4), 4U);
    log.repeated(std::next(log.changes().begin()), Epoch{106}, 2);
    log.remove_upto(Epoch{105});
    EXPECT_EQ(log.changes().size(), 1U);
    EXPECT_EQ(now(5), 105U) << "it is durable, and may still be named";
    EXPECT_EQ(now(6), 106U);
}

// Its times are those that were set, as long as the epochs there are those of the last write.
TEST(ChangeLog, InodeOfARepeatedChangeNamesNewEpochs) {
    ChangeLog log(nullptr, 0, mount);
    log.add(writing(1, "x"), Epoch{5}, 1);
    InodeRecord inode{.modified_epoch = 5, .changed_epoch = 3};
    object::Transaction set{.id = {.client = mount, .sequence = 2}};
    set.operations.push_back({.kind = object::Operation::Kind::put,
                              .object = {1, 1},
                              .akey = inode_akey(),
                              .window = object::Window::local(object_bytes(inode))});
    log.add(set, Epoch{6}, 1);
    log.repeated(log.changes().begin(), Epoch{105}, 2);
    ChangeLog::Change copy;
    log.copy_to_repeat(std::next(log.changes().begin())->second, copy);
    std::memcpy(&inode, copy.transaction.operations.front().window.bytes().data(), sizeof inode);
    EXPECT_EQ(inode.modified_epoch, 105U);
    EXPECT_EQ(inode.changed_epoch, 3U);
}

// It was on its way when the change before was lost.
TEST(ChangeLog, InodeOfANewChangeNamesNewEpochs) {
    ChangeLog log(nullptr, 0, mount);
    log.add(writing(1, "x"), Epoch{5}, 1);
    log.repeated(log.changes().begin(), Epoch{105}, 2);
    const InodeRecord inode{.modified_epoch = 5, .changed_epoch = 3};
    object::Transaction set{.id = {.client = mount, .sequence = 2}};
    for (int i = 0; i < 2; ++i) {
        set.operations.push_back({.kind = object::Operation::Kind::put,
                                  .object = {1, 1},
                                  .akey = inode_akey(),
                                  .window = object::Window::local(object_bytes(inode))});
    }
    std::string inodes;
    log.replace_old_epochs(set, inodes);
    for (const object::Operation& each : set.operations) {
        InodeRecord sent;
        ASSERT_EQ(each.window.length, sizeof sent);
        std::memcpy(&sent, each.window.bytes().data(), sizeof sent);
        EXPECT_EQ(sent.modified_epoch, 105U);
        EXPECT_EQ(sent.changed_epoch, 3U);
    }
    EXPECT_EQ(inode.modified_epoch, 5U) << "the caller's memory";
}

// Returns how many changes fit.
uint64_t fill(ChangeLog& log) {
    const std::string large(64 << 10, 'x');
    uint64_t epoch = 1;
    for (; log.has_room(writing(epoch, large)); ++epoch) {
        log.add(writing(epoch, large), Epoch{epoch}, 1);
    }
    return epoch - 1;
}

TEST(ChangeLog, TenantLeavesRoomForOthers) {
    ChangeLogMemory memory({.in_all = 1 << 20});
    {
        ChangeLog log(&memory, 1, mount), other(&memory, 2, neighbour);
        const uint64_t first = fill(log), second = fill(other);
        EXPECT_GE(first, 6U);
        EXPECT_GE(second, 3U);
        EXPECT_LT(first + second, 16U);
        log.remove_upto(Epoch{first});
        EXPECT_TRUE(log.has_room(writing(100, std::string(64 << 10, 'x'))));
    }
    EXPECT_EQ(memory.used(), 0U);
}

TEST(ChangeLog, MountsOfATenantShareItsPart) {
    ChangeLogMemory memory({.per_tenant = 512 << 10, .in_all = 1 << 20});
    ChangeLog log(&memory, 1, mount), other(&memory, 1, neighbour);
    const uint64_t first = fill(log), second = fill(other);
    EXPECT_GE(first + second, 6U);
    EXPECT_LT(first + second, 8U);
}

}  // namespace
}  // namespace ros2s::fs
