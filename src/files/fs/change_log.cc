#include "change_log.h"

#include <algorithm>
#include <cstring>

#include "records.h"
#include "ros2s/object/checksum.h"

namespace ros2s::fs {

using object::Condition;
using object::Operation;

namespace {

constexpr uint64_t bytes_of_change = 1024;  // without payload, and with few operations
constexpr uint64_t bytes_of_operation = 256;

bool has_payload(const Operation& operation) {
    return operation.kind == Operation::Kind::write || operation.kind == Operation::Kind::put;
}

bool is_inode(const Operation& operation) {
    return operation.kind == Operation::Kind::put && operation.akey == inode_akey() &&
           operation.window.is_local() && operation.window.length >= sizeof(InodeRecord);
}

uint64_t memory_of(const object::Transaction& transaction) {
    uint64_t bytes = bytes_of_change + payload_bytes(transaction);
    for (const Operation& each : transaction.operations) {
        bytes += bytes_of_operation + each.seals.size();
    }
    return bytes + bytes_of_operation * transaction.conditions.size();
}

// The client's memory may have changed since the store has read it.
void correct_checksums(Operation& operation, bool was_shared) {
    if (!was_shared || operation.checksums.empty()) return;
    const ConstBytes bytes = operation.window.bytes();
    if (operation.kind == Operation::Kind::write) {
        object::array_checksums(operation.extent.offset, bytes, operation.checksums);
    } else {
        object::value_checksums(bytes, operation.checksums);
    }
}

}  // namespace

uint64_t payload_bytes(const object::Transaction& transaction) {
    uint64_t bytes = 0;
    for (const Operation& each : transaction.operations) {
        if (has_payload(each)) bytes += each.window.length;
    }
    return bytes;
}

ChangeLog::ChangeLog(ChangeLogMemory* memory, uint64_t tenant, const Uuid& client) {
    uint64_t number = 0;
    std::memcpy(&number, client.bytes.data(), sizeof number);
    ChangeLogMemory& from = memory == nullptr ? own_ : *memory;
    share_ = from.count({.tenant = tenant, .subject = number}, 0);
}

bool ChangeLog::has_room(const object::Transaction& transaction) const {
    const bool is_local = std::ranges::all_of(
        transaction.operations, [](const Operation& each) { return each.window.is_local(); });
    return is_local && changes_.size() < changes_max && payload_bytes(transaction) < payload_max &&
           share_.check(memory_of(transaction));
}

void ChangeLog::add(const object::Transaction& transaction, object::Epoch epoch,
                    uint64_t incarnation) {
    Change& change = changes_[epoch];
    change = {
        .transaction = transaction, .payload = {}, .epoch = epoch, .incarnation = incarnation};
    object::Transaction& kept = change.transaction;
    kept.id.digest = object::digest_of(transaction);
    kept.is_new = false;
    kept.was_lost = true;
    // Nobody else has had the objects since, and pins and leases come again by themselves.
    std::erase_if(kept.conditions, [](const Condition& each) { return each.is_about_holders(); });
    change.payload.reserve(payload_bytes(transaction));
    for (Operation& each : kept.operations) {
        if (!has_payload(each)) continue;
        const size_t at = change.payload.size();
        change.payload += as_text(each.window.bytes());
        const bool was_shared = each.window.shared;
        each.window = object::Window::local(
            std::as_bytes(std::span(change.payload)).subspan(at, each.window.length));
        correct_checksums(each, was_shared);
    }
    share_.add(memory_of(kept));
}

void ChangeLog::forget(const Changes::value_type& change) {
    share_.subtract(memory_of(change.second.transaction));
    if (change.second.epoch != change.first) --repeated_;
}

void ChangeLog::remove_upto(object::Epoch epoch) {
    auto end = changes_.begin();
    for (; end != changes_.end() && end->second.epoch <= epoch; ++end) {
        forget(*end);
        if (end->second.epoch == end->first) continue;
        if (old_epochs_.size() >= changes_max) old_epochs_.erase(old_epochs_.begin());
        old_epochs_.emplace(end->first.value, end->second.epoch);
    }
    changes_.erase(changes_.begin(), end);
}

void ChangeLog::remove_from(Changes::iterator first) {
    for (auto each = first; each != changes_.end(); ++each) forget(*each);
    changes_.erase(first, changes_.end());
}

void ChangeLog::repeated(Changes::iterator change, object::Epoch epoch, uint64_t incarnation) {
    const auto is_renumbered = [&] { return change->second.epoch != change->first ? 1U : 0U; };
    repeated_ -= is_renumbered();
    change->second.epoch = epoch;
    change->second.incarnation = incarnation;
    repeated_ += is_renumbered();
}

uint64_t ChangeLog::current(uint64_t epoch) const {
    if (const auto found = changes_.find({epoch}); found != changes_.end()) {
        return found->second.epoch.value;
    }
    const auto found = old_epochs_.find(epoch);
    return found == old_epochs_.end() ? epoch : found->second.value;
}

void ChangeLog::replace_old_epochs(std::span<Condition> conditions) const {
    for (Condition& each : conditions) {
        if (each.kind == Condition::Kind::epoch_equals) each.value = current(each.value);
    }
}

void ChangeLog::replace_old_epochs(Operation& inode) const {
    const Bytes bytes = inode.window.bytes();
    InodeRecord record;
    std::memcpy(&record, bytes.data(), sizeof record);
    record.modified_epoch = current(record.modified_epoch);
    record.changed_epoch = current(record.changed_epoch);
    std::memcpy(bytes.data(), &record, sizeof record);
    if (!inode.checksums.empty()) object::value_checksums(bytes, inode.checksums);
}

void ChangeLog::replace_old_epochs(object::Transaction& transaction, std::string& inodes) const {
    replace_old_epochs(transaction.conditions);
    uint64_t length = 0;
    for (const Operation& each : transaction.operations) {
        if (is_inode(each)) length += each.window.length;
    }
    inodes.reserve(length);
    for (Operation& each : transaction.operations) {
        if (!is_inode(each)) continue;
        const size_t at = inodes.size();
        inodes += as_text(each.window.bytes());
        each.window = object::Window::local(std::as_writable_bytes(std::span(inodes)).subspan(at));
        replace_old_epochs(each);
    }
}

void ChangeLog::copy_to_repeat(const Change& change, Change& copy) const {
    copy = change;
    replace_old_epochs(copy.transaction.conditions);
    size_t at = 0;
    for (Operation& each : copy.transaction.operations) {
        if (!has_payload(each)) continue;
        each.window = object::Window::local(
            std::as_writable_bytes(std::span(copy.payload)).subspan(at, each.window.length));
        at += each.window.length;
        if (is_inode(each)) replace_old_epochs(each);
    }
}

}  // namespace ros2s::fs
