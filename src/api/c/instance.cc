#include "instance.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "ros2s/api/deployment.h"
#include "ros2s/api/pool_directory.h"
#include "ros2s/runtime/fork.h"

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
    // The process's own: a child of fork() gets an empty one, because the parent's lock may have
    // been held by a thread that the child does not have. It remembers whether the parent had used
    // what cannot be used again in a child.
    static Instances& of_process() {
        static std::atomic<Instances*> current = nullptr;
        Instances* found = current.load(std::memory_order_acquire);
        while (found == nullptr || found->mark_.in_forked_child()) {
            auto* made = new Instances;  // lives as long as the process
            made->forked_from_user_ =
                found != nullptr && (found->used_ || found->forked_from_user_);
            if (current.compare_exchange_strong(found, made)) return *made;
            delete made;
        }
        return *found;
    }

    Result<Attachment> attach(const Uri& uri, const std::string& program, Report& report);
    void detach(Attachment attachment);

  private:
    // A directory, by whatever path it is reached.
    using Key = std::pair<dev_t, ino_t>;

    Result<Attachment> join(std::shared_ptr<Instance> instance, const Uri& uri, Report& report);
    Result<Attachment> attach_in_child(const Uri& uri, Report& report);
    Result<Attachment> attach_mount(std::shared_ptr<Instance> instance, const Uri& uri,
                                    const OwnerRecord& owner, Report& report);
    void close_unused(const std::shared_ptr<Instance>& instance);

    ForkMark mark_;
    bool used_ = false;  // a pool was opened, or tried
    bool forked_from_user_ = false;
    std::mutex mutex_;
    std::map<Key, std::shared_ptr<Instance>> pools_;
};

namespace {

// What goes wrong without anybody asking is said on standard error, unless the environment says
// how much is wanted: ROS2STORE_LOG=debug, info, warning, error or off.
Log log_of_process() {
    const char* wanted = std::getenv("ROS2STORE_LOG");
    const std::string_view level = wanted == nullptr ? "warning" : wanted;
    if (level == "off") return {};
    for (const auto each : {LogLevel::debug, LogLevel::info, LogLevel::error}) {
        if (level == to_string(each)) return log_to_stderr(each);
    }
    return log_to_stderr(LogLevel::warning);
}

Result<std::shared_ptr<Instance>> start_instance(const std::string& directory, Report& report) {
    ROS2S_TRY_ASSIGN(const auto found, read_pool_directory(directory, report));
    ROS2S_TRY_ASSIGN(auto reactor, create_reactor(found, report));
    ROS2S_TRY(reactor->start(report));
    return std::make_shared<Instance>(std::move(reactor), log_of_process());
}

}  // namespace

Result<Attachment> Instances::attach(const Uri& uri, const std::string& program, Report& report) {
    ROS2S_TRY(check_transport(uri, report));
    const std::scoped_lock lock(mutex_);
    struct stat directory{};
    if (::stat(uri.dir.c_str(), &directory) != 0) {
        const int cause = errno;
        return report.fail(fail_errno(cause).error(),
                           fmt::format("cannot open the pool directory {} ({}); `ros2store up {}` "
                                       "makes one",
                                       uri.dir, std::strerror(cause), uri.dir));
    }
    const Key key{directory.st_dev, directory.st_ino};
    if (const auto found = pools_.find(key); found != pools_.end()) {
        return join(found->second, uri, report);
    }
    if (forked_from_user_) return attach_in_child(uri, report);
    ROS2S_TRY_ASSIGN(auto instance, start_instance(uri.dir, report));
    OwnerRecord owner;
    Report refusal;
    auto pool = instance->run([&] {
        return EmbeddedPool::open(instance->environment(), uri.dir, {.program = program}, owner,
                                  refusal);
    });
    // A refusal for its owner's sake comes before anything of the pool is touched.
    used_ = used_ || pool || pool.error().code != Code::busy;
    if (!pool) {
        if (pool.error().code == Code::busy && stands_in(owner, uri.container)) {
            return attach_mount(std::move(instance), uri, owner, report);
        }
        return report.fail(pool.error(), refusal.text());
    }
    instance->pool_ = std::move(*pool);
    pools_.emplace(key, instance);
    auto attached = join(instance, uri, report);
    if (!attached) close_unused(instance);
    return attached;
}

// The index library keeps helper threads for the whole process, which a child lacks: it would wait
// for them for ever. A mount is another process's.
Result<Attachment> Instances::attach_in_child(const Uri& uri, Report& report) {
    const auto owner = find_owner(uri.dir);
    if (owner && stands_in(*owner, uri.container)) {
        ROS2S_TRY_ASSIGN(auto instance, start_instance(uri.dir, report));
        return attach_mount(std::move(instance), uri, *owner, report);
    }
    return report.fail(Code::unsupported,
                       "this process was forked from one that had opened a pool, and can open none "
                       "itself: start it as a new program (exec; in Python, multiprocessing's "
                       "start method 'spawn')");
}

Result<Attachment> Instances::join(std::shared_ptr<Instance> instance, const Uri& uri,
                                   Report& report) {
    ROS2S_TRY(check_pool_name(uri, *instance->pool_, report));
    auto found = instance->mounted_.find(uri.container);
    if (found == instance->mounted_.end()) {
        const Call call;
        ROS2S_TRY_ASSIGN(auto opened, instance->run([&] {
            return instance->pool_->open_container(call, uri.container, report);
        }));
        found = instance->mounted_.try_emplace(uri.container).first;
        found->second.file_system = std::move(opened);
        found->second.path = instance->pool_->path();
    }
    ++found->second.users;
    return Attachment{std::move(instance), &found->second};
}

Result<Attachment> Instances::attach_mount(std::shared_ptr<Instance> instance, const Uri& uri,
                                           const OwnerRecord& owner, Report& report) {
    const Call call;
    ROS2S_TRY_ASSIGN(auto through, instance->run([&] {
        return open_through_mount(call, instance->environment(), uri, owner, report);
    }));
    Mounted& mounted = instance->mounted_[uri.container];
    mounted.file_system = std::move(through.file_system);
    mounted.path = std::move(through.path);
    mounted.users = 1;
    return Attachment{std::move(instance), &mounted};
}

namespace {

Task<> close_file_system(std::unique_ptr<fs::FileSystem> file_system) {
    co_await file_system->close_all();
}

Task<> close_pool(std::unique_ptr<EmbeddedPool> pool) { co_await pool->close(); }

}  // namespace

void Instances::detach(Attachment attachment) {
    const std::scoped_lock lock(mutex_);
    if (--attachment.mounted->users > 0) return;
    Instance& instance = *attachment.instance;
    for (auto it = instance.mounted_.begin(); it != instance.mounted_.end(); ++it) {
        if (&it->second != attachment.mounted) continue;
        instance.run([&] { return close_file_system(std::move(it->second.file_system)); });
        instance.mounted_.erase(it);
        break;
    }
    close_unused(attachment.instance);
}

void Instances::close_unused(const std::shared_ptr<Instance>& instance) {
    if (!instance->mounted_.empty()) return;
    if (instance->pool_ != nullptr) {
        instance->run([&] { return close_pool(std::move(instance->pool_)); });
    }
    std::erase_if(pools_, [&](const auto& entry) { return entry.second == instance; });
    instance->reactor_->stop();
    instance->reactor_->join();
}

Result<Attachment> attach(const Uri& uri, const std::string& program, Report& report) {
    return Instances::of_process().attach(uri, program, report);
}

void detach(Attachment attachment) { Instances::of_process().detach(std::move(attachment)); }

}  // namespace ros2s::api::c
