// LockWork: clients lock files and ranges of them, use the locks for a while and unlock. What is
// judged:
// - Locks that exclude each other are not held at once. A lock is held from the reply that granted
//   it to the call that unlocks it or closes its file, or to the error that tells of its loss.
// - A lock may end without its owner, with a session or a server. Then no read through its handle
//   that begins after another owner has got the lock succeeds.
// - Locks of the dead end in time.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::sim {

class LockWork {
  public:
    // Changes when the locks of a client may have ended without it.
    using EndsOf = std::function<uint64_t(size_t client)>;
    LockWork(Reactor& reactor, EndsOf ends_of) : reactor_(reactor), ends_of_(std::move(ends_of)) {}

    struct Client {
        size_t number = 0;
        fs::FileSystem& files;
        Reactor& clock;  // of its machine
    };
    // Makes the files, before any client works.
    Task<Result<>> prepare(fs::FileSystem& files);
    // One lock, from its call to its end. Errors: those of the file system that are no answer to a
    // call for a lock.
    Task<Result<>> step(const Client& client, Random& random);
    // Its process is gone.
    void killed(size_t client) {
        std::erase_if(held_, [&](const auto& each) { return each.second.client == client; });
    }
    // At the end, through a mount that nobody has: each file is locked as a whole.
    Task<> judge(fs::FileSystem& files, Reactor& clock);
    [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

    struct Totals {
        uint64_t granted = 0, refused = 0, unknown = 0, lost = 0, overtaken = 0;
        Totals& operator+=(const Totals& other);
    };
    [[nodiscard]] const Totals& totals() const { return totals_; }

  private:
    struct Held {
        size_t client = 0;
        size_t file = 0;
        object::Lock lock;
        uint64_t ends = 0;  // of its client, when it answer
        Time since{};
        Time overtaken = Time::max();  // another owner has got a lock that this one excludes
    };
    using Locked = Result<std::optional<object::Lock>>;
    Task<Result<fs::FileHandle>> open(fs::FileSystem& files, size_t file);
    // Of a new owner: another process of the client.
    [[nodiscard]] object::Lock draw(Random& random);
    // What a call for a lock has led to.
    struct Answer {
        uint64_t held = 0;        // its number; 0: nothing
        bool is_unknown = false;  // there was no answer
    };
    Task<Result<Answer>> ask(const Client& client, size_t file, fs::FileHandle handle,
                             object::Lock lock, fs::LockHow how, Duration waits);
    uint64_t grant(Held granted);
    // Reads through the handle for a while. False: the lock is lost.
    Task<Result<bool>> use(const Client& client, fs::FileHandle handle, uint64_t held,
                           Random& random);
    // False: the file stays open. Nothing but the mount ends what it may have locked.
    Task<Result<bool>> hold(const Client& client, size_t file, fs::FileHandle handle,
                            Random& random);
    void say(const Held& held, std::string_view what);

    Reactor& reactor_;
    const EndsOf ends_of_;
    uint64_t last_ = 0, last_owner_ = 0;
    std::map<uint64_t, Held> held_;
    Totals totals_;
    std::vector<std::string> problems_;
};

}  // namespace ros2s::sim
