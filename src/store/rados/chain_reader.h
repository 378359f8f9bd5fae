// ChainReader: fetches chains of items. What is known of objects is taken for true, so that the
// items after it need not wait. Then all of these objects are read at the same time. Part of an
// open store. Used on one core.
//
// Invariant: each item is of a time that is not before that of an item that it refers to. If an
// object has the head that is known, or the same values, nothing had changed when the chain began.
#pragma once
#include <span>
#include <string>

#include "reader.h"
#include "ros2s/object/pins.h"

namespace ros2s::rados {

class ChainReader {
  public:
    ChainReader(const Env& env, Heads& heads, Containers& containers, Reader& reader,
                object::PinTable& pins)
        : env_(env), heads_(heads), containers_(containers), reader_(reader), pins_(pins) {}

    // ObjectStore::fetch_chain(). False: the caller fetches the items in turn.
    Task<Result<bool>> fetch(const Call& call, object::ContainerId container,
                             const object::Holder& holder, std::span<object::FetchItem> items,
                             std::span<object::Link> links);

  private:
    struct Chain;
    struct ChainedObject;
    // May guess that remembered facts about the objects are still true. False: a guess was wrong.
    Task<Result<bool>> follow(const Call& call, std::string space, Chain& chain);
    Task<> read_object(const Call& call, std::string space, object::ObjectId object,
                       ChainedObject& wanted);
    // `view` has asked for what `read` reads.
    Task<Result<>> take(const Call& call, const Read& read, View& view, ChainedObject& object,
                        ReadReply reply);
    // Whether all that the chain knows of the object is known to be so.
    [[nodiscard]] static bool has_same(const ChainedObject& object, const CachedOmap& known);

    const Env& env_;
    Heads& heads_;
    Containers& containers_;
    Reader& reader_;
    object::PinTable& pins_;
};

}  // namespace ros2s::rados
