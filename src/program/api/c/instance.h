// Instance: one opened pool in this process, or one container of a server, with the core that works
// for it. Every ros2s_fs of the process that uses it shares it. A container is mounted once,
// however often it is opened.
//
// There is one table of instances per process, because a pool has one owner *process*, and one
// mount of a container serves the whole process. It is the library's only mutable global, besides
// the thread's error sentence. A forked child starts with an empty table. The parent's instances
// stay the parent's. A child keeps what its handles had of them, and never uses or destroys it.
//
// Thread rule: attach() and detach() from any thread. Openings of one pool, or of one container of
// a server, wait for each other. They do not wait for others, because a server may hang.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ros2s/api/deployment.h"
#include "ros2s/api/queue/queue.h"
#include "ros2s/api/uri.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::api::c {

class Instance;

// A mounted container of an instance.
struct Mounted {
    fs::FileSystem* file_system = nullptr;
    size_t users = 0;
};

struct Attachment {
    std::shared_ptr<Instance> instance;
    Mounted* mounted = nullptr;
};

// Opens what the URI names, or joins it if this process has it open already. A URI without a
// container attaches the pool alone (Mounted::file_system is null). Errors: those of
// Deployment::open.
[[nodiscard]] Result<Attachment> attach(const Uri& uri, const std::string& program, Report& report);
// Closes what has no other users.
void detach(Attachment attachment);

// For handles that a forked child renews: the lock of this process's first uses, which no thread of
// the parent can have.
[[nodiscard]] std::mutex& lock_of_renewals();
// Keeps what belongs to the parent of this process, for as long as the process lives.
void keep_for_parent(std::shared_ptr<void> of_parent);

class Instance {
  public:
    Instance(std::string key, std::unique_ptr<OsReactor> reactor, Log log)
        : key_(std::move(key)), reactor_(std::move(reactor)), log_(std::move(log)) {}
    ~Instance();
    Instance& operator=(Instance&&) = delete;

    // Before anything else. Errors: those of ThreadPool::start().
    [[nodiscard]] Result<> start(Report& report) { return blocking_.start(report); }
    [[nodiscard]] OsReactor& reactor() { return *reactor_; }
    [[nodiscard]] Environment environment() {
        return {.reactor = *reactor_, .blocking = blocking_, .log = log_};
    }
    // Complete until the last container is detached.
    [[nodiscard]] const Deployment& deployment() const { return *deployment_; }
    [[nodiscard]] Deployment& deployment() { return *deployment_; }
    // Runs make() on the core, awaits the Task it returns, and blocks for the result.
    template <class F>
    auto run(F&& make) {
        return run_blocking(*reactor_, std::forward<F>(make));
    }

    // ---- on the core
    void add_queue(Queue& queue);
    void remove_queue(Queue& queue);
    // Starts what callers have published: a thread's earlier submissions are in progress when it
    // calls.
    void take_submitted() noexcept;

  private:
    friend class Instances;
    static constexpr size_t blocking_threads_max = 8;

    const std::string key_;  // in the table
    std::unique_ptr<OsReactor> reactor_;
    Log log_;
    ThreadPool blocking_{blocking_threads_max};
    std::unique_ptr<Deployment> deployment_;
    std::map<std::string, Mounted> mounted_;  // by mount_key(); protected by the key's lock
    std::vector<Queue*> queues_;
};

}  // namespace ros2s::api::c
