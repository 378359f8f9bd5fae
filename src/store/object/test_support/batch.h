// Batch: a transaction and the payload that its windows point to, written as one expression:
//
//     Batch().absent(inode).put(inode, record).put(entry, "…")
//
// Each call returns the batch with the value category of its argument, so a temporary can be passed
// on by value. For tests and simulations. Moving a Batch does not move its payload.
#pragma once
#include <deque>
#include <string>

#include "ros2s/object/object_store.h"

namespace ros2s::object {

// The address of an array or a value.
struct AkeyAddress {
    ObjectId object{};
    std::string dkey;
    std::string akey;
    friend auto operator<=>(const AkeyAddress&, const AkeyAddress&) = default;
};

// Fills the buffer from `offset` on.
inline FetchItem fetch_item(ObjectId object, Dkey dkey, Akey akey, uint64_t offset, Bytes into) {
    return {.object = object,
            .dkey = std::move(dkey),
            .akey = std::move(akey),
            .extent = {offset, into.size()},
            .window = Window::local(into)};
}

class Batch {
  public:
    Batch() = default;
    Batch(Batch&&) = default;
    Batch& operator=(Batch&&) = default;

    auto&& deferred(this auto&& self) {
        self.transaction_.deferred = true;
        return std::forward<decltype(self)>(self);
    }
    auto&& write(this auto&& self, const AkeyAddress& address, uint64_t offset, std::string bytes) {
        Operation& operation = self.add(Operation::Kind::write, address);
        operation.extent = {offset, bytes.size()};
        operation.window = self.keep(std::move(bytes));
        return std::forward<decltype(self)>(self);
    }
    auto&& put(this auto&& self, const AkeyAddress& address, std::string bytes) {
        self.add(Operation::Kind::put, address).window = self.keep(std::move(bytes));
        return std::forward<decltype(self)>(self);
    }
    auto&& punch_extent(this auto&& self, const AkeyAddress& address, Extent extent) {
        self.add(Operation::Kind::punch_extent, address).extent = extent;
        return std::forward<decltype(self)>(self);
    }
    auto&& set_size(this auto&& self, const AkeyAddress& address, uint64_t size) {
        self.add(Operation::Kind::set_size, address).size = size;
        return std::forward<decltype(self)>(self);
    }
    auto&& touch(this auto&& self, const AkeyAddress& address) {
        self.add(Operation::Kind::touch, address);
        return std::forward<decltype(self)>(self);
    }
    auto&& punch_akey(this auto&& self, const AkeyAddress& address) {
        self.add(Operation::Kind::punch_akey, address);
        return std::forward<decltype(self)>(self);
    }
    auto&& punch_dkey(this auto&& self, ObjectId object, std::string dkey) {
        self.add(Operation::Kind::punch_dkey, {object, std::move(dkey), ""});
        return std::forward<decltype(self)>(self);
    }
    auto&& punch_dkeys(this auto&& self, ObjectId object, std::string from, std::string to) {
        self.add(Operation::Kind::punch_dkeys, {object, std::move(from), ""}).dkey_end = {
            std::move(to)};
        return std::forward<decltype(self)>(self);
    }
    auto&& punch_object(this auto&& self, ObjectId object) {
        self.add(Operation::Kind::punch_object, {object, "", ""});
        return std::forward<decltype(self)>(self);
    }
    auto&& operation(this auto&& self, Operation operation) {
        self.transaction_.operations.push_back(std::move(operation));
        return std::forward<decltype(self)>(self);
    }

    auto&& exists(this auto&& self, const AkeyAddress& address) {
        return std::forward<decltype(self)>(self).condition(Condition::Kind::exists, address);
    }
    auto&& absent(this auto&& self, const AkeyAddress& address) {
        return std::forward<decltype(self)>(self).condition(Condition::Kind::absent, address);
    }
    auto&& epoch_equals(this auto&& self, const AkeyAddress& address, Epoch epoch) {
        return std::forward<decltype(self)>(self).condition(Condition::Kind::epoch_equals, address,
                                                            epoch.value);
    }
    auto&& size_equals(this auto&& self, const AkeyAddress& address, uint64_t size) {
        return std::forward<decltype(self)>(self).condition(Condition::Kind::size_equals, address,
                                                            size);
    }
    auto&& no_dkeys(this auto&& self, ObjectId object, std::string akey) {
        return std::forward<decltype(self)>(self).condition(Condition::Kind::no_dkeys,
                                                            {object, "", std::move(akey)});
    }
    auto&& condition(this auto&& self, Condition::Kind kind, const AkeyAddress& address,
                     uint64_t value = 0) {
        self.transaction_.conditions.push_back({.kind = kind,
                                                .object = address.object,
                                                .dkey = {address.dkey},
                                                .akey = {address.akey},
                                                .value = value});
        return std::forward<decltype(self)>(self);
    }

    auto&& id(this auto&& self, UpdateName id) {
        self.transaction_.id = id;
        return std::forward<decltype(self)>(self);
    }
    auto&& by(this auto&& self, const Holder& holder) {
        self.transaction_.holder = holder;
        return std::forward<decltype(self)>(self);
    }
    auto&& is_new(this auto&& self) {
        self.transaction_.is_new = true;
        return std::forward<decltype(self)>(self);
    }
    // For the last operation.
    auto&& checksums(this auto&& self, Checksums checksums) {
        self.transaction_.operations.back().checksums = std::move(checksums);
        return std::forward<decltype(self)>(self);
    }

    auto&& seals(this auto&& self, std::string seals) {
        self.transaction_.operations.back().seals = std::move(seals);
        return std::forward<decltype(self)>(self);
    }

    [[nodiscard]] const Transaction& transaction() const { return transaction_; }
    // Overwrites the memory of the windows.
    void scribble() {
        for (std::string& payload : payloads_) payload.assign(payload.size(), '#');
    }

  private:
    Operation& add(Operation::Kind kind, const AkeyAddress& address) {
        return transaction_.operations.emplace_back(Operation{.kind = kind,
                                                              .object = address.object,
                                                              .dkey = {address.dkey},
                                                              .akey = {address.akey}});
    }
    Window keep(std::string bytes) {
        payloads_.push_back(std::move(bytes));
        return Window::local(as_bytes(payloads_.back()));
    }

    Transaction transaction_;
    std::deque<std::string> payloads_;
};

}  // namespace ros2s::object
