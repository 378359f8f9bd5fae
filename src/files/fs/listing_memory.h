// ListingMemory: the bytes that open directories keep of the names that they returned
// (ReaddirCookies): of one file system, or of all file systems of a server.
//
// Over the limit, the tenant with the most bytes loses names. Only if that is not enough, the
// tenant with the second most loses names. Its least recently read handles lose theirs first. A
// handle first loses all names except those of the last call and the one before them, which a
// reader may still need. If that is not enough, it keeps only the last name.
//
// Owned by the composing code; outlives the file systems. Used on their core.
#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>

namespace ros2s::fs {

class ReaddirCookies;

class ListingMemory {
  public:
    explicit ListingMemory(size_t bytes_max = size_t{8} << 20) : bytes_max_(bytes_max) {}
    ListingMemory& operator=(ListingMemory&&) = delete;

    [[nodiscard]] size_t bytes() const { return bytes_; }
    [[nodiscard]] size_t bytes_max() const { return bytes_max_; }

  private:
    friend class ReaddirCookies;
    struct Share {
        size_t bytes = 0;
        std::list<ReaddirCookies*> handles{};  // the most recently read one is last
    };
    void used(ReaddirCookies& cookies);
    void make_room();
    void make_room(const Share& share) const;

    const size_t bytes_max_;
    size_t bytes_ = 0;
    std::map<uint64_t, Share> shares_;  // by tenant; of handles with names
};

}  // namespace ros2s::fs
