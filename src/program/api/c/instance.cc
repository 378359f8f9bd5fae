#include "instance.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "ros2s/api/own_directory.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/pool/pool_process.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s::api::c {

Instance::~Instance() = default;

void Instance::add_queue(Queue& queue) {
    queues_.push_back(&queue);
    reactor_->attach(queue);
}

void Instance::remove_queue(Queue& queue) {
    reactor_->detach(queue);
    std::erase(queues_, &queue);
}

void Instance::take_submitted() noexcept {
    for (Queue* queue : queues_) queue->take_all();
}

class Instances {
  public:
    // The process's table. A child of fork() gets an empty one, because the parent's lock may have
    // been held by a thread that the child does not have. The new table records whether the parent
    // used libraries for pools that a child cannot use again.
    static Instances& of_process() {
        static std::atomic<Instances*> current = nullptr;
        Instances* found = current.load(std::memory_order_acquire);
        while (found == nullptr || found->mark_.in_forked_child()) {
            auto* made = new Instances;  // lives as long as the process
            made->forked_from_user_ =
                found != nullptr &&
                (found->used_ || found->opening_pools_ > 0 || found->forked_from_user_);
            if (current.compare_exchange_strong(found, made)) return *made;
            delete made;
        }
        return *found;
    }

    Result<Attachment> attach(const Uri& uri, const std::string& program, Report& report);
    void detach(Attachment attachment);
    std::mutex& renewals() { return renewals_; }
    void keep(std::shared_ptr<void> of_parent) {
        const std::scoped_lock lock(mutex_);
        of_parent_.push_back(std::move(of_parent));
    }

  private:
    using Shared = std::shared_ptr<Instance>;

    // While it exists, only this thread opens, joins or closes what has this key. The table's lock
    // is not held meanwhile: a server that hangs would block the users of all other keys.
    class KeyLock {
      public:
        // `key` must outlive it.
        KeyLock(Instances& table, const std::string& key) : table_(table), key_(key) {
            std::unique_lock lock(table_.mutex_);
            table_.key_released_.wait(lock,
                                      [&] { return table_.locked_keys_.insert(key_).second; });
        }
        ~KeyLock() {
            {
                const std::scoped_lock lock(table_.mutex_);
                table_.locked_keys_.erase(key_);
            }
            table_.key_released_.notify_all();
        }
        KeyLock& operator=(KeyLock&&) = delete;

      private:
        Instances& table_;
        const std::string& key_;
    };

    // Null if none has this key.
    Shared find(const std::string& key);
    // The caller holds the key.
    Result<Attachment> open(const Uri& uri, const std::string& program, const std::string& key,
                            Report& report);
    Result<Attachment> join(Shared instance, const Uri& uri, Report& report);

    ForkMark mark_;
    // Another thread may be opening while this one forks: read without a lock.
    std::atomic<bool> used_ = false;  // uses_threads()
    std::atomic<uint32_t> opening_pools_ = 0;
    using Opened = std::array<std::atomic<bool>, 2>;  // whether one has failed, and one succeeded
    Opened has_opened_here_{}, has_opened_network_{};
    bool forked_from_user_ = false;
    std::mutex renewals_;
    std::mutex mutex_;  // never held while something opens or closes
    std::condition_variable key_released_;
    std::set<std::string> locked_keys_;
    std::map<std::string, Shared> instances_;  // by key_of()
    std::vector<std::shared_ptr<void>> of_parent_;
};

namespace {

// Problems outside of calls are logged to standard error, or as the environment sets it:
// ROS2STORE_LOG=debug, info, warning, error or off.
Log log_of_process() {
    const char* wanted = std::getenv("ROS2STORE_LOG");
    const std::string_view level = wanted == nullptr ? "warning" : wanted;
    if (level == "off") return {};
    for (const auto each : {LogLevel::debug, LogLevel::info, LogLevel::error}) {
        if (level == to_string(each)) return log_to_stderr(each);
    }
    return log_to_stderr(LogLevel::warning);
}

Result<std::shared_ptr<Instance>> start_instance(const Uri& uri, const std::string& key,
                                                 Report& report) {
    ROS2S_TRY_ASSIGN(auto reactor, create_reactor(uri, report, {.callers_lead = true}));
    ROS2S_TRY(reactor->start(report));
    auto instance = std::make_shared<Instance>(key, std::move(reactor), log_of_process());
    ROS2S_TRY(instance->start(report));
    return instance;
}

// Of this version, as the libraries that libros2store loads.
std::string pool_process() {
    return fmt::format("{}/ros2store/{}-{}.{}.{}", own_directory(), pool::pool_program,
                       ROS2S_VERSION_MAJOR, ROS2S_VERSION_MINOR, ROS2S_VERSION_PATCH);
}

// A pool directory has one key, whatever path leads to it. A container of a server has its name as
// key.
Result<std::string> key_of(Uri uri, Report& report) {
    if (uri.transport != Uri::Transport::local) {
        uri.path.clear();
        return uri.to_string();
    }
    struct stat directory{};
    if (::stat(uri.dir.c_str(), &directory) == 0) {
        return fmt::format("{}:{}", directory.st_dev, directory.st_ino);
    }
    const int cause = errno;
    return report.fail(fail_errno(cause).error(), pool::cannot_open(uri.dir, cause));
}

// Of a mount: one that waits for each change is not one that may defer them.
std::string mount_key(const Uri& uri) {
    const bool waits = uri.is_durable && !uri.container.empty();
    return waits ? uri.container + "?durable" : uri.container;
}

// True if RocksDB or librados was used, which keep threads for the whole process. They are not used
// through an owner, nor if an owner refuses, because that comes first.
bool uses_threads(const Uri& uri, const Result<std::unique_ptr<Deployment>>& opened) {
    if (!is_opened_here(uri)) return false;
    if (opened) return !(*opened)->is_through_owner();
    return opened.error().code != Code::busy;
}

}  // namespace

Result<Attachment> Instances::attach(const Uri& uri, const std::string& program, Report& report) {
    ROS2S_TRY_ASSIGN(const std::string key, key_of(uri, report));
    const KeyLock held(*this, key);
    if (Shared found = find(key); found != nullptr) return join(std::move(found), uri, report);
    return open(uri, program, key, report);
}

Instances::Shared Instances::find(const std::string& key) {
    const std::scoped_lock lock(mutex_);
    const auto found = instances_.find(key);
    return found == instances_.end() ? nullptr : found->second;
}

Result<Attachment> Instances::open(const Uri& uri, const std::string& program,
                                   const std::string& key, Report& report) {
    const bool is_here = is_opened_here(uri);
    // Not even the thread for it can be started.
    if (forked_from_user_ && uri.transport == Uri::Transport::rados) {
        return refuse_in_forked_child(report);
    }
    ROS2S_TRY_ASSIGN(auto instance, start_instance(uri, key, report));
    const Call call;
    opening_pools_ += is_here ? 1 : 0;
    LibraryOpening opening;
    auto opened = instance->run([&] {
        return Deployment::open(call, instance->environment(), uri,
                                {.embedded = {.program = program, .shares = true},
                                 .in_forked_child = forked_from_user_,
                                 .pool_process = pool_process()},
                                report);
    });
    if (uses_threads(uri, opened)) used_ = true;
    opening_pools_ -= is_here ? 1 : 0;
    // One that fails may have made some of the static objects, and the next one the rest. Through
    // an owner it may be a network, or a mount, which has no such library.
    const bool is_network = opened ? (*opened)->is_on_network() : !is_here;
    const bool has_library = !opened || is_network || !(*opened)->is_through_owner();
    auto& has_opened = is_network ? has_opened_network_ : has_opened_here_;
    opening.done(has_library && !has_opened.at(opened ? 1 : 0).exchange(true));
    if (!opened) return fail(opened.error());
    instance->deployment_ = std::move(*opened);
    // An instance that works through another owner is not shared: each opening looks for the owner
    // again.
    if (!instance->deployment_->is_through_owner()) {
        const std::scoped_lock lock(mutex_);
        instances_.emplace(key, instance);
    }
    Mounted& mounted = instance->mounted_[mount_key(uri)];
    mounted.users = 1;
    // A pool alone has none.
    if (!uri.container.empty()) mounted.file_system = &instance->deployment_->file_system();
    return Attachment{std::move(instance), &mounted};
}

Result<Attachment> Instances::join(Shared instance, const Uri& uri, Report& report) {
    Deployment& deployment = *instance->deployment_;
    if (deployment.pool() != nullptr)
        ROS2S_TRY(check_pool_name(uri, deployment.pool()->name(), report));
    const std::string key = mount_key(uri);
    auto found = instance->mounted_.find(key);
    if (found == instance->mounted_.end() && uri.container.empty()) {
        found = instance->mounted_.try_emplace(key).first;
    }
    if (found == instance->mounted_.end()) {
        const Call call;
        ROS2S_TRY_ASSIGN(auto* const opened, instance->run([&] {
            return deployment.mount(call, uri.container, uri.is_durable, report);
        }));
        found = instance->mounted_.emplace(key, Mounted{.file_system = opened}).first;
    }
    ++found->second.users;
    return Attachment{std::move(instance), &found->second};
}

void Instances::detach(Attachment attachment) {
    Instance& instance = *attachment.instance;
    const KeyLock held(*this, instance.key_);
    if (--attachment.mounted->users > 0) return;
    if (instance.mounted_.size() > 1) {
        if (auto* const file_system = attachment.mounted->file_system; file_system != nullptr) {
            instance.run([&] { return instance.deployment_->unmount(*file_system); });
        }
        std::erase_if(instance.mounted_,
                      [&](const auto& each) { return &each.second == attachment.mounted; });
        return;
    }
    instance.run([&] { return instance.deployment_->close(); });
    {
        const std::scoped_lock lock(mutex_);
        std::erase_if(instances_,
                      [&](const auto& each) { return each.second == attachment.instance; });
    }
    instance.reactor_->stop();
    instance.reactor_->join();
}

// A pool's small files are written on the caller's thread.
Result<Attachment> attach(const Uri& uri, const std::string& program, Report& report) {
    const NoFileSizeSignal signal;
    return Instances::of_process().attach(uri, program, report);
}

void detach(Attachment attachment) {
    const NoFileSizeSignal signal;
    Instances::of_process().detach(std::move(attachment));
}

std::mutex& lock_of_renewals() { return Instances::of_process().renewals(); }

void keep_for_parent(std::shared_ptr<void> of_parent) {
    Instances::of_process().keep(std::move(of_parent));
}

}  // namespace ros2s::api::c
