// A provider that hangs: who waits for it, who does not, and for how long. Real threads.
#include "key_calls.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "container_keys.h"
#include "key_directory.h"
#include "ros2s/fs/container.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/test_support/forwarding_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::cipher {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// A KeyDirectory whose calls hang, if told so: for 5 s, or until they are told to answer.
class SlowKeys final : public KeyProvider {
  public:
    explicit SlowKeys(std::string directory) : keys_(std::move(directory)) {}
    ~SlowKeys() override {
        close(answers_);
        close(turn_);
    }
    SlowKeys& operator=(SlowKeys&&) = delete;
    void hang() const {
        eventfd_t unused = 0;
        EXPECT_EQ(eventfd_read(answers_, &unused), 0);
    }
    void answer() const { EXPECT_EQ(eventfd_write(answers_, 1), 0); }
    Result<WrappedKey> wrap(const std::string& name, const SecretKey& key,
                            Report& report) const override {
        wait();
        return keys_.wrap(name, key, report);
    }
    Result<SecretKey> unwrap(const std::string& name, const WrappedKey& wrapped,
                             Report& report) const override {
        wait();
        return keys_.unwrap(name, wrapped, report);
    }

  private:
    void wait() const {
        eventfd_t turn = 0;
        EXPECT_EQ(eventfd_read(turn_, &turn), 0) << "two threads at once";
        pollfd watched{.fd = answers_, .events = POLLIN, .revents = 0};
        (void)poll(&watched, 1, 5000);
        EXPECT_EQ(eventfd_write(turn_, 1), 0);
    }
    const KeyDirectory keys_;
    const int answers_ = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    const int turn_ = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
};

// Its time can be set forward.
class LaterReactor final : public ForwardingReactor {
  public:
    explicit LaterReactor(Reactor& to) : ForwardingReactor(to), now_(to) {}
    [[nodiscard]] Time now() const noexcept override { return now_.now() + later; }
    void arm(Timer& timer) noexcept override {
        timer.at -= later;
        now_.arm(timer);
    }
    Duration later{};

  private:
    Reactor& now_;
};

// A container in memory with a file.
class SlowProvider : public testing::Test {
  public:
    SlowProvider() {
        std::ofstream(directory_ + "/acme.key") << std::string(64, '7');
        EXPECT_EQ(chmod((directory_ + "/acme.key").c_str(), 0600), 0);
        loop_->run(fill(*this));
    }
    ~SlowProvider() override { std::filesystem::remove_all(directory_); }

    static Task<> fill(SlowProvider& self) {
        const auto keys =
            co_await make_keys({}, *self.keys_, "acme", self.store_.features(), self.report_);
        EXPECT_TRUE(keys.has_value()) << self.report_.text();
        const std::string bytes = encode(*keys);
        const object::Operation put = put_keys(bytes);
        const auto made = co_await fs::create_container({}, self.reactor_, self.store_,
                                                        {.label = "c"}, {}, self.report_, &put);
        EXPECT_TRUE(made.has_value()) << self.report_.text();
        auto files = co_await self.open({}, self.report_);
        EXPECT_TRUE(files.has_value()) << self.report_.text();
        const auto file =
            co_await (*files)->create({}, fs::root_node, "file", 0644, {.write = true}, {});
        const std::vector<std::byte> data(4096, std::byte{'x'});
        EXPECT_TRUE(co_await (*files)->pwrite({}, file->handle,
                                              object::Window::local(ConstBytes(data)), 0));
        (void)co_await (*files)->close({}, file->handle);
    }
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call, Report& report) {
        return fs::open_container(call, reactor_, store_, "the pool", "c",
                                  {.layers = layers_.get()}, report);
    }
    // The errno, and no longer than a hanging call takes.
    static Task<int> read(SlowProvider& self, fs::FileSystem& files, Duration after) {
        co_await sleep_for(self.reactor_, 100ms);  // an answer may come
        self.reactor_.later += after;
        const Time begun = self.loop_->now();
        const auto entry = co_await files.lookup({}, fs::root_node, "file");
        const auto file = co_await files.open({}, entry->node, {.read = true});
        std::vector<std::byte> into(4096);
        const auto read =
            co_await files.pread({}, file->handle, object::Window::local(Bytes(into)), 0);
        (void)co_await files.close({}, file->handle);
        EXPECT_LT(self.loop_->now() - begun, 1500ms);
        co_return read.has_value() ? 0 : to_errno(read.error());
    }
    static Task<> count(SlowProvider& self, int& turns, const bool& is_over) {
        while (!is_over) {
            co_await sleep_for(self.reactor_, 10ms);
            ++turns;
        }
    }
    static Task<> answer_later(SlowProvider& self) {
        co_await sleep_for(self.reactor_, 200ms);
        self.provider_->answer();
    }
    [[nodiscard]] Call within(Duration time) { return {.deadline = reactor_.now() + time}; }
    Task<> expect_no_mount(Duration time) {
        Report report;
        const Time begun = loop_->now();
        const Call call = within(time);
        const auto opened = co_await open(call, report);
        EXPECT_LT(loop_->now() - begun, time + 2s);
        EXPECT_FALSE(opened.has_value());
        if (opened) co_return;
        EXPECT_EQ(opened.error().code, Code::deadline);
        EXPECT_THAT(report.text(), HasSubstr("the keys at the token did not answer in time"));
    }

    Report report_;
    const std::string directory_ = [] {
        std::string path = testing::TempDir() + "slow-keys.XXXXXX";
        EXPECT_NE(mkdtemp(path.data()), nullptr);
        return path;
    }();
    std::unique_ptr<OsReactor> loop_ = std::move(*OsReactor::create({}, report_));
    LaterReactor reactor_{*loop_};
    std::unique_ptr<ThreadPool> threads_ = std::make_unique<ThreadPool>(2);
    object::MemoryStore store_{reactor_};
    std::shared_ptr<SlowKeys> provider_ = std::make_shared<SlowKeys>(directory_);
    std::unique_ptr<KeyCalls> keys_ =
        std::make_unique<KeyCalls>(reactor_, *threads_, provider_, "the token");
    std::unique_ptr<object::StoreLayers> layers_ = decrypt_by(*keys_, 5min, {});
};

TEST_F(SlowProvider, HungCallFailsMountAtItsDeadline) {
    provider_->hang();
    loop_->run([](SlowProvider& self) -> Task<> {
        int turns = 0;
        bool is_over = false;
        Nursery others(self.reactor_, 1);
        co_await others.spawn(count(self, turns, is_over));
        co_await self.expect_no_mount(300ms);
        EXPECT_GE(turns, 5);
        is_over = true;
        co_await others.join();
    }(*this));
    provider_->answer();
}

TEST_F(SlowProvider, HungCallFailsCreationAtItsDeadline) {
    provider_->hang();
    loop_->run([](SlowProvider& self) -> Task<> {
        Report report;
        const Call call = self.within(100ms);
        const auto made =
            co_await make_keys(call, *self.keys_, "acme", self.store_.features(), report);
        EXPECT_FALSE(made.has_value());
        EXPECT_THAT(report.text(), HasSubstr("the keys at the token did not answer in time"));
        EXPECT_EQ(report.notes(), "");
        // A host does not learn which keys these are.
        self.keys_->hide_place();
        Report told;
        const Call again = self.within(100ms);
        const auto none =
            co_await make_keys(again, *self.keys_, "acme", self.store_.features(), told);
        EXPECT_EQ(none.error().code, Code::deadline);
        EXPECT_EQ(told.text(), "ask the administrator of the DPU, whose log has the reason");
        EXPECT_THAT(told.notes(), HasSubstr("the keys at the token did not answer in time"));
    }(*this));
    provider_->answer();
}

TEST_F(SlowProvider, MountWaitsForTheEarlierCall) {
    provider_->hang();
    loop_->run([](SlowProvider& self) -> Task<> {
        co_await self.expect_no_mount(100ms);
        Nursery others(self.reactor_, 1);
        co_await others.spawn(answer_later(self));
        Report report;
        const Time begun = self.loop_->now();
        const Call call = self.within(1min);
        const auto opened = co_await self.open(call, report);
        EXPECT_TRUE(opened.has_value()) << report.text();
        EXPECT_GE(self.loop_->now() - begun, 150ms);
        co_await others.join();
    }(*this));
}

// The hosts of an open container neither wait for a confirmation nor lose it for want of an answer.
TEST_F(SlowProvider, HungCallDoesNotStopReads) {
    loop_->run([](SlowProvider& self) -> Task<> {
        const auto opened = co_await self.open({}, self.report_);
        EXPECT_TRUE(opened.has_value()) << self.report_.text();
        if (!opened) co_return;
        fs::FileSystem& files = **opened;
        const auto read_after = [&](Duration time) { return read(self, files, time); };
        self.provider_->hang();
        for (int i = 0; i < 3; ++i) EXPECT_EQ(co_await read_after(11s), 0);
        EXPECT_EQ(co_await read_after(10min), 0);
        // The answer to the question that hangs is that the key is gone.
        std::filesystem::remove(self.directory_ + "/acme.key");
        self.provider_->answer();
        EXPECT_EQ(co_await read_after(11s), 0);
        EXPECT_EQ(co_await read_after(6min), EKEYREJECTED);
        std::ofstream(self.directory_ + "/acme.key") << std::string(64, '7');
        EXPECT_EQ(chmod((self.directory_ + "/acme.key").c_str(), 0600), 0);
        EXPECT_EQ(co_await read_after(11s), 0);
    }(*this));
}

TEST_F(SlowProvider, HungCallOwnsItsState) {
    provider_->hang();
    loop_->run(expect_no_mount(100ms));
    layers_.reset();
    keys_.reset();
    const std::weak_ptr<SlowKeys> watched = provider_;
    provider_->answer();
    provider_.reset();
    threads_.reset();
    EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace ros2s::cipher
