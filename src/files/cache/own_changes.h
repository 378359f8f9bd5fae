// OwnChanges: what changes of this client touch while they run. Its own changes do not end its
// leases. A reply that was under way when one began or ended may be older than the change, or
// newer: it is not kept.
//
//     moment = now() ── request ── reply ── quiet(node, moment)? ── kept
//     Change: touch…() ── sent() ── reply ── end() ── may_keep(node)? ── kept
//
// Nodes and names share marks in tables of fixed size. A change of which the node is not known,
// such as the removal of a name that is not kept, touches any node: attributes that were kept
// before are not used any more (see used_since()).
//
// Used on one core. Outlives its changes.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "ros2s/base/crc32c.h"
#include "ros2s/base/inline_vector.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::cache {

class OwnChanges {
  public:
    // Counts the beginnings and ends of changes.
    using Moment = uint64_t;
    class Change;

    // `unknown_for`: a change whose outcome is unknown (deadline, cancelled, disconnected) may
    // still be done for this time.
    OwnChanges(Reactor& reactor, Duration unknown_for)
        : reactor_(reactor), unknown_for_(unknown_for), nodes_(marks), names_(marks) {}
    OwnChanges& operator=(OwnChanges&&) = delete;

    [[nodiscard]] Moment now() const { return clock_; }
    // No change of it runs, or has begun or ended since.
    [[nodiscard]] bool quiet(fs::NodeId node, Moment since) const {
        return is_quiet(of(node), since) && is_quiet(any_, since);
    }
    [[nodiscard]] bool quiet(fs::NodeId directory, std::string_view name, Moment since) const {
        return is_quiet(of(directory, name), since);
    }
    // No change of an unknown node has begun since: attributes kept then are still used.
    [[nodiscard]] bool used_since(Moment kept) const { return any_.changed <= kept; }

    // Others may change the directory's names. From now on it is not known to which nodes the
    // changes of its names that run lead.
    void lost(fs::NodeId directory);
    void lost_all();

  private:
    struct Mark {
        uint32_t running = 0;
        uint32_t naming = 0;      // of them, changes of names
        bool is_unknown = false;  // these touch any node, until the last of them ends
        Moment changed = 0;
        Time unknown_until{};
    };
    static constexpr size_t marks = 4096;
    static size_t hash(uint64_t value) { return (value * 0x9E3779B97F4A7C15) >> 52; }
    static size_t hash(fs::NodeId directory, std::string_view name) {
        return hash(directory.value ^ crc32c(as_bytes(name)));
    }
    [[nodiscard]] Mark& of(fs::NodeId node) { return nodes_[hash(node.value)]; }
    [[nodiscard]] const Mark& of(fs::NodeId node) const { return nodes_[hash(node.value)]; }
    [[nodiscard]] Mark& of(fs::NodeId directory, std::string_view name) {
        return names_[hash(directory, name)];
    }
    [[nodiscard]] const Mark& of(fs::NodeId directory, std::string_view name) const {
        return names_[hash(directory, name)];
    }
    [[nodiscard]] bool is_over(const Mark& mark) const {
        return mark.running == 0 &&
               (mark.unknown_until == Time{} || reactor_.now() >= mark.unknown_until);
    }
    [[nodiscard]] bool is_quiet(const Mark& mark, Moment since) const {
        return mark.changed <= since && is_over(mark);
    }
    void set_unknown(Mark& mark);

    Reactor& reactor_;
    const Duration unknown_for_;
    Moment clock_ = 0;
    std::vector<Mark> nodes_, names_;
    Mark any_;
    uint64_t naming_ = 0;  // changes of names that run
};

// One change. Touch everything before the first wait.
class OwnChanges::Change {
  public:
    explicit Change(OwnChanges& all) : all_(all), began_(++all.clock_) {}
    Change& operator=(Change&&) = delete;
    ~Change() { end(!is_sent_); }

    void touch(fs::NodeId node) { add(all_.of(node), false); }
    void touch(fs::NodeId directory, std::string_view name);
    void touch_any() { add(all_.any_, false); }
    // From now on it may be done.
    void sent() { is_sent_ = true; }
    // `is_certain`: it is done, or will not be done.
    void end(bool is_certain);
    // After the end: what its reply says is newer than all other changes.
    [[nodiscard]] bool may_keep(fs::NodeId node) const {
        return was_alone(all_.of(node)) && was_alone(all_.any_);
    }
    [[nodiscard]] bool may_keep(fs::NodeId directory, std::string_view name) const {
        return was_alone(all_.of(directory, name));
    }

  private:
    struct Touched {
        Mark* mark = nullptr;
        bool is_name = false;
        bool was_alone = false;
    };
    void add(Mark& mark, bool is_name);
    [[nodiscard]] bool was_alone(const Mark& mark) const;

    OwnChanges& all_;
    const Moment began_;
    InlineVector<Touched, 4> touched_;  // a write has one
    bool is_sent_ = false, is_ended_ = false;
};

}  // namespace ros2s::cache
