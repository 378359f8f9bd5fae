// Rewriter: writes a segment of many parts anew, so that readers find few. Others go on writing to
// it. Part of an open store. Used on one core.
//
// Invariants
// - The rewritten segment has the same bytes: holes, and what was written meanwhile, stay.
// - A rewrite uses no more blocks than before.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "payload.h"
#include "reader.h"

namespace ros2s::rados {

// The rewrite of one segment: its bytes in new runs.
struct Rewrite {
    object::ObjectId object;
    std::string key;
    Segment before{}, anew{};
    std::map<object::ObjectId, std::vector<DataId>> garbage{};  // after apply()

    void add_to(Views& views) const {
        View& view = views.try_emplace(object, object).first->second;
        view.want(key);
        view.want(inline_key);
    }
    // Adds the new segment to the view's changes. Errors: condition_failed (nothing is left to
    // replace); corrupt, bad_version.
    [[nodiscard]] Result<> apply(View& view);
};

class Rewriter {
  public:
    Rewriter(Heads& heads, Reader& reader, PayloadWriter& payloads)
        : heads_(heads), reader_(reader), payloads_(payloads) {}

    // Reads the segment and starts to write it: one run for each row of blocks that have bytes. The
    // bytes that are not there become zeros. False: it has changed, or would not get fewer parts.
    Task<Result<bool>> write_anew(std::string space, Rewrite& rewrite, Payload& payload);

  private:
    Heads& heads_;
    Reader& reader_;
    PayloadWriter& payloads_;
};

}  // namespace ros2s::rados
