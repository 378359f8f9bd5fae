// Replies: the stored replies to named transactions. Each client's are in one object, a slot each.
// A write that shares a change notes its reply with the object that it changes. Once a second the
// notes of each client get into its slots, many by one change. docs/formats/rados.md has the proof
// that each transaction is done once. Part of an open store. Used on one core.
//
// Invariants
// - A note goes from its object only after its slot has the reply, and with a change of the head.
// - A slot's reply is replaced only by one of a higher sequence, and only when the transaction that
//   it is the record of is applied to all its objects.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "heads.h"
#include "update.h"

namespace ros2s::rados {

class Replies {
  public:
    Replies(const Env& env, Coordinator& coordinator, Heads& heads)
        : env_(env), coordinator_(coordinator), heads_(heads), storing_(env.reactor, 1) {}
    // Writes the notes to their slots, unless the cluster does not answer.
    Task<> close();

    // Whether clients may repeat the transaction.
    [[nodiscard]] bool keeps(const object::Transaction& transaction) const;
    using SlotName = std::pair<ObjectName, std::string>;
    [[nodiscard]] static SlotName slot_of(const std::string& space, const UpdateName& id);

    // ---- transactions whose slot is their record
    // Returns the transaction's reply if the slot has it. Otherwise the slot is ready for a new
    // reply. Sets the location's state.
    Task<Result<std::optional<object::Commit>>> stored_reply(const Call& call,
                                                             const object::Transaction& transaction,
                                                             RecordLocation& location);
    // The slot may have another record, so it is read again before it is believed. `finished`: its
    // transaction, if that is applied to all its objects.
    void note_executed(const SlotName& name, const std::optional<Uuid>& finished);

    // ---- transactions that note their reply
    // Distrusts slots that were read too long ago. A client may also use other stores.
    void distrust_old(const std::string& space, std::span<Update* const> members);
    // Reads the slots of members that were not read since their object was. False: some were read,
    // so the plans must run again. If a slot refuses its member, the member gets that result.
    Task<bool> know_slots(std::string space, const Views& views, std::span<Update* const> members);
    // The reply to the member, from the object or the slot, if any. Errors: stale, name_taken,
    // expired; corrupt, bad_version.
    [[nodiscard]] Result<std::optional<object::Commit>> noted_reply(const std::string& space,
                                                                    View& view,
                                                                    const Update& member) const;
    // The reply is now noted with the object.
    void note(const std::string& space, const Update& member);
    // Writes notes to their slots, before the caller removes them from an object. `noted`: by key.
    Task<Result<>> store_notes(const Call& call, std::string space,
                               std::map<std::string, std::string> noted);
    [[nodiscard]] bool is_stored_note(const std::string& space, const View& view,
                                      const std::string& key) const;
    // The view's changes remove the notes that slots have. The second function is called after the
    // changes are applied.
    void drop_stored_notes(const std::string& space, View& view);
    void forget_dropped_notes(const std::string& space, const View& view);

  private:
    // Returns the slot's record, which is not pending. Sequence 0: the slot is empty. Creates the
    // client's replies object if it does not exist.
    Task<Result<Coordination>> read_reply(const Call& call, const object::Transaction& transaction,
                                          RecordLocation& location);
    // As read_reply(), but creates nothing.
    Task<Result<Coordination>> decided_reply(const Call& call, RecordLocation& location);
    // Errors: expired.
    Task<Result<>> make_replies(const object::Transaction& transaction,
                                const RecordLocation& location);
    // Applies a committed transaction of a slot, unless this store knows that it is applied.
    Task<Result<>> finish_slot(const SlotName& name, const Coordination& record);
    Task<> read_slot(std::string space, Update& member);
    Task<> store_replies();
    // Stores the noted replies of one client.
    Task<> store_noted(ObjectName replies);
    // Writes replies that are later than those in the slots. Adds to `stored` the slots that then
    // have the wanted reply or a later one. Skips slots that have a pending transaction or change
    // meanwhile. Errors: condition_failed (slots changed at each attempt), those of Pool.
    Task<Result<>> put_replies(ObjectName replies, std::map<std::string, Coordination> wanted,
                               std::set<SlotName>& stored);

    const Env& env_;
    Coordinator& coordinator_;
    Heads& heads_;
    // This store's knowledge of a slot.
    struct ReplySlot {
        Uuid finished;       // the transaction that is applied to all its objects
        uint64_t asked = 0;  // the moment before the slot was read; 0: it must be read
        Time asked_at{};
        Coordination last;         // of a client that writes; sequence 0: none
        bool may_be_lost = false;  // the slot is empty, but may have had a reply
    };
    ReplySlot& slot_at(const SlotName& name);
    std::map<SlotName, ReplySlot> slots_;
    // noted_: replies that only their object has, by client. stored_notes_: replies that their slot
    // has as well, by object.
    using NoteName = std::pair<ObjectName, std::string>;  // the object, and the key there
    std::map<ObjectName, std::map<NoteName, Coordination>> noted_;
    size_t noted_count_ = 0;
    std::map<ObjectName, std::map<std::string, std::string>> stored_notes_;
    std::set<ObjectName> clients_storing_;  // whose replies are being written to slots
    bool is_answering_ = true;              // the cluster, at the last write of replies
    StopSource closing_;
    Nursery storing_;  // store_replies()
};

}  // namespace ros2s::rados
