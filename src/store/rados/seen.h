// SeenFacts: facts about objects that a store has read or written. They are true while the object
// has the same head, so the user of a fact reads the head. No I/O. Used on one core.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/rados/pool.h"
#include "ros2s/rados/records.h"
#include "ros2s/rados/view.h"

namespace ros2s::rados {

// The value of one key of an entry or segment, decoded once.
struct Fact {
    std::string value;  // empty: there is no such key
    Entry entry;
    Segment segment;
};
using Facts = std::vector<std::shared_ptr<const Fact>>;
// Errors: those of decode().
[[nodiscard]] Result<std::shared_ptr<const Fact>> fact_of(const std::string& key,
                                                          const std::string& value);
// Errors: those of decode().
[[nodiscard]] Result<Facts> facts_of(const std::vector<std::string>& keys, const ReadReply& reply);

class SeenFacts {
  public:
    // Returns no facts if some are not known.
    [[nodiscard]] Facts of(const ObjectName& object, const std::vector<std::string>& keys) const;
    // The reply to a query of the akey.
    [[nodiscard]] std::optional<object::QueryReply> query(const ObjectName& object,
                                                          const object::Akey& akey) const;
    // Whether the facts are true for an object with this head. With `is_applied`, its omap must
    // have all of them: no committed transaction that locks it has yet to apply one.
    [[nodiscard]] bool has_head(const ObjectName& object, const std::string& head,
                                bool is_applied) const;

    void remember(const ObjectName& object, const std::string& head,
                  const std::vector<std::string>& keys, const Facts& facts);
    void remember(const ObjectName& object, const std::string& head, const object::Akey& akey,
                  const object::QueryReply& facts);
    // This store has changed the object from the view's state. `stored` is the whole change. Until
    // it is applied, the object may have the locked head, if that is not empty.
    void update(const ObjectName& object, const View& before, const Pending& stored,
                const std::string& locked_head);

  private:
    struct Object {
        std::string head;
        std::string locked_head;  // of a transaction of this store that is
                                  // committed; or empty
        std::map<std::string, std::shared_ptr<const Fact>> facts;
        std::map<std::string, object::QueryReply> queries;  // by akey
        // The object has columns of these akeys only. Not known if another store created it.
        std::optional<std::set<std::string>> columns;
        size_t bytes = 0;
    };
    Object& with_head(const ObjectName& object, const std::string& head);
    void set(Object& object, const std::string& key, std::shared_ptr<const Fact> fact);
    void add_bytes(Object& object, size_t bytes);
    static void update_query(Object& object, const Pending& stored, const std::string& column_at,
                             const std::string& column_value);
    void forget(const ObjectName& object);
    void bound();

    std::map<ObjectName, Object> objects_;
    size_t bytes_ = 0;
};

}  // namespace ros2s::rados
