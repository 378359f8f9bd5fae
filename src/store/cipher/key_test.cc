// Keys: files, records, and containers that are opened with them.
#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "container_keys.h"
#include "key_directory.h"
#include "ros2s/fs/container.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/cipher.h"

namespace ros2s::cipher {
namespace {

using testing::HasSubstr;

class KeyFiles : public testing::Test {
  public:
    ~KeyFiles() override { std::filesystem::remove_all(directory_); }

    [[nodiscard]] std::string path(const std::string& name) const {
        return directory_ + "/" + name + ".key";
    }
    void write_key(const std::string& name, const std::string& text, mode_t mode = 0600) {
        std::ofstream(path(name)) << text;
        EXPECT_EQ(chmod(path(name).c_str(), mode), 0);
    }
    void expect_rejected(const std::string& name, const std::string& says) {
        Report report;
        const auto wrapped = provider_.wrap(name, counting_key(0), report);
        ASSERT_FALSE(wrapped.has_value());
        EXPECT_EQ(to_errno(wrapped.error()), EKEYREJECTED);
        EXPECT_THAT(report.text(), HasSubstr(says));
        EXPECT_THAT(report.text(), testing::Not(HasSubstr("0123456789abcdef")));
    }

    const std::string digits_ = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef";
    const std::string directory_ = [] {
        std::string path = testing::TempDir() + "keys.XXXXXX";
        EXPECT_NE(mkdtemp(path.data()), nullptr);
        return path;
    }();
    KeyDirectory provider_{directory_};
};

TEST_F(KeyFiles, WrappedKeyIsUnwrapped) {
    write_key("a", digits_ + "\n");
    write_key("b", std::string(64, '7'), 0400);
    Report report;
    for (const char* name : {"a", "b"}) {
        const auto wrapped = provider_.wrap(name, counting_key(9), report);
        ASSERT_TRUE(wrapped.has_value()) << report.text();
        const auto key = provider_.unwrap(name, *wrapped, report);
        ASSERT_TRUE(key.has_value()) << report.text();
        EXPECT_TRUE(std::ranges::equal(key->bytes(), counting_key(9).bytes()));
        const auto other = provider_.unwrap(*name == 'a' ? "b" : "a", *wrapped, report);
        EXPECT_EQ(to_errno(other.error()), EKEYREJECTED);
    }
    EXPECT_THAT(report.text(), HasSubstr("is not the key with which"));
}

TEST_F(KeyFiles, ExposedOrInvalidFileIsRejected) {
    expect_rejected("none", "cannot read");
    write_key("open", digits_, 0640);
    expect_rejected("open", "chmod 600");
    write_key("short", digits_.substr(2));
    expect_rejected("short", "is not a key");
    write_key("long", digits_ + "\n\n");
    expect_rejected("long", "is not a key");
    write_key("words", digits_.substr(1) + "g");
    expect_rejected("words", "is not a key");
    ASSERT_EQ(mkdir(path("directory").c_str(), 0700), 0);
    expect_rejected("directory", "is not a regular file");
    ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    expect_rejected("pipe", "is not a regular file");
    write_key("good", digits_);
    ASSERT_EQ(symlink("good.key", path("link").c_str()), 0);
    expect_rejected("link", "is a symbolic link");
    Report report;
    EXPECT_EQ(provider_.wrap("../good", counting_key(0), report).error().code, Code::invalid);
    if (geteuid() == 0) {
        ASSERT_EQ(chown(path("good").c_str(), 12345, 0), 0);
        expect_rejected("good", "belongs to another user");
    }
}

KeyRecord sample() {
    KeyRecord record{.wrapping = "acme", .current = 2};
    record.id.bytes = {0xaa, 0xbb};
    for (const uint32_t version : {1U, 2U}) {
        record.versions.push_back(
            {.version = version,
             .wrapped = wrap(counting_key(0), counting_key(static_cast<uint8_t>(version)))});
    }
    return record;
}

// Where a fuzzer begins, too.
constexpr std::string_view seeds =
#include "cipher_key_record_fuzz_seeds.txt"
    ;

TEST(KeyRecords, BytesMatchTheFormat) {
    const std::string bytes = encode(sample());
    const auto expected = from_hex(seeds.substr(1, seeds.size() - 2));
    EXPECT_EQ(std::vector(as_bytes(bytes).begin(), as_bytes(bytes).end()), expected);
    EXPECT_EQ(decode_key_record(as_bytes(bytes)), sample());
}

// A container whose tags the store keeps. Earlier programs refuse it.
TEST(KeyRecords, VersionSelectsTheLayout) {
    KeyRecord record = sample();
    std::string bytes = encode(record);
    EXPECT_EQ(bytes[1], 1);
    record.layout = Layout::seals;
    bytes[1] = 2;
    EXPECT_EQ(encode(record), bytes);
    EXPECT_EQ(decode_key_record(as_bytes(bytes)), record);
}

TEST(KeyRecords, InvalidRecordIsRefused) {
    const std::string bytes = encode(sample());
    for (size_t length = 0; length < bytes.size(); ++length) {
        EXPECT_FALSE(decode_key_record(as_bytes(bytes).first(length)).has_value()) << length;
    }
    EXPECT_EQ(decode_key_record(as_bytes(bytes + "x")).error().code, Code::corrupt);
    std::string later = bytes;
    later[1] = 3;
    EXPECT_EQ(decode_key_record(as_bytes(later)).error().code, Code::bad_version);
    KeyRecord record = sample();
    record.current = 3;
    EXPECT_EQ(decode_key_record(as_bytes(encode(record))).error().code, Code::corrupt);
    record = sample();
    std::swap(record.versions[0], record.versions[1]);
    EXPECT_EQ(decode_key_record(as_bytes(encode(record))).error().code, Code::corrupt);
    record = sample();
    record.wrapping = "../x";
    EXPECT_EQ(decode_key_record(as_bytes(encode(record))).error().code, Code::corrupt);
}

// A store whose fetches take their time, if asked to.
class DelayingStore final : public object::ForwardingStore {
  public:
    DelayingStore(ObjectStore& below, Reactor& reactor)
        : ForwardingStore(below), reactor_(reactor) {}
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override {
        if (fetch_takes > Duration::zero()) {
            (void)co_await sleep_for(reactor_,
                                     std::min(fetch_takes, call.deadline - reactor_.now()));
            ROS2S_CO_TRY(call.check(reactor_));
        }
        co_return co_await below().fetch(call, container, items);
    }
    Duration fetch_takes{};

  private:
    Reactor& reactor_;
};

// A container in memory, and a file in it.
class EncryptedContainers : public KeyFiles {
  public:
    EncryptedContainers() {
        write_key("acme", digits_);
        write_key("next", std::string(64, 'e'));
    }
    ~EncryptedContainers() override { wait(std::chrono::milliseconds(2)); }
    // Also for confirmations, which requests do not wait for.
    void wait(Duration time) {
        world_.run([](EncryptedContainers& self, Duration rest) -> Task<> {
            (void)co_await sleep_for(self.world_.core(), rest);
        }(*this, time));
    }
    void encrypt(const std::string& key) {
        world_.run([](EncryptedContainers& self, std::string name) -> Task<> {
            const auto made = co_await fs::create_container(
                self.call_, self.world_.core(), self.store_, {.label = "c"}, {}, self.report_);
            EXPECT_TRUE(made.has_value()) << self.report_.text();
            self.record_ = *made;
            const auto keys = co_await make_keys(self.call_, self.keys_, std::move(name),
                                                 self.store_.features(), self.report_);
            EXPECT_TRUE(keys.has_value()) << self.report_.text();
            const std::string bytes = encode(*keys);
            EXPECT_TRUE(co_await fs::require_decryption(self.call_, self.store_, self.record_,
                                                        put_keys(bytes), self.report_))
                << self.report_.text();
        }(*this, key));
    }
    Result<std::unique_ptr<fs::FileSystem>> open(object::StoreLayers* layers, Report& report) {
        return world_.run(fs::open_container(call_, world_.core(), store_, "the pool", "c",
                                             {.layers = layers}, report));
    }
    Result<std::unique_ptr<fs::FileSystem>> open(Report& report) {
        layers_.push_back(*decrypt_with(directory_, std::chrono::minutes(5),
                                        {world_.core(), world_.blocking()}, report));
        return open(layers_.back().get(), report);
    }
    void write_file() {
        auto opened = open(report_);
        ASSERT_TRUE(opened.has_value()) << report_.text();
        world_.run([](EncryptedContainers& self, fs::FileSystem& files) -> Task<> {
            const auto file =
                co_await files.create(self.call_, fs::root_node, "file", 0644, {.write = true}, {});
            EXPECT_TRUE(file.has_value());
            EXPECT_TRUE(co_await files.pwrite(self.call_, file->handle,
                                              object::Window::local(as_bytes(self.text_)), 0));
            (void)co_await files.close(self.call_, file->handle);
        }(*this, **opened));
    }
    std::string read_file() {
        auto opened = open(report_);
        EXPECT_TRUE(opened.has_value()) << report_.text();
        std::string text(100, '\0');
        world_.run(
            [](EncryptedContainers& self, fs::FileSystem& files, std::string& into) -> Task<> {
                const auto entry = co_await files.lookup(self.call_, fs::root_node, "file");
                const auto file = co_await files.open(self.call_, entry->node, {});
                const auto read = co_await files.pread(
                    self.call_, file->handle,
                    object::Window::local(std::as_writable_bytes(std::span(into))), 0);
                EXPECT_TRUE(read.has_value());
                into.resize(read.value_or(0));
                (void)co_await files.close(self.call_, file->handle);
            }(*this, **opened, text));
        return text;
    }

    const Call call_{};
    const std::string text_ = "what nobody else should read";
    sim::World world_{1};
    object::MemoryStore memory_{world_.core()};
    DelayingStore store_{memory_, world_.core()};
    KeyCalls keys_{world_.core(), world_.blocking(), std::make_shared<KeyDirectory>(directory_),
                   directory_};
    object::ContainerRecord record_;
    std::vector<std::unique_ptr<object::StoreLayers>> layers_;
    Report report_;
};

TEST_F(EncryptedContainers, KeyDecryptsTheContents) {
    encrypt("acme");
    write_file();
    EXPECT_EQ(read_file(), text_);
    Report report;
    const auto again =
        world_.run(fs::require_decryption(call_, store_, record_, put_keys("x"), report));
    EXPECT_EQ(again.error().code, Code::exists);
    EXPECT_THAT(report.text(), HasSubstr("encrypted already"));
}

TEST_F(EncryptedContainers, MissingKeyIsRefused) {
    encrypt("acme");
    write_file();
    Report none;
    EXPECT_EQ(to_errno(open(nullptr, none).error()), EKEYREJECTED);
    EXPECT_THAT(none.text(), HasSubstr("is encrypted, and this side has no keys"));
    // The provider loses the key: the data that it protects cannot be read.
    std::filesystem::remove(path("acme"));
    Report gone;
    EXPECT_EQ(to_errno(open(gone).error()), EKEYREJECTED);
    EXPECT_THAT(gone.text(), HasSubstr("its key is not available"));
    EXPECT_THAT(gone.text(), HasSubstr(path("acme")));
    write_key("acme", std::string(64, '5'));
    Report wrong;
    EXPECT_EQ(to_errno(open(wrong).error()), EKEYREJECTED);
    write_key("acme", digits_);
    EXPECT_EQ(read_file(), text_);
}

TEST_F(EncryptedContainers, NewKeyNeedsNoNewData) {
    encrypt("acme");
    write_file();
    world_.run([](EncryptedContainers& self) -> Task<> {
        auto found =
            co_await find_keys(self.call_, self.store_, self.record_.id, "c", self.report_);
        EXPECT_TRUE(found.has_value());
        const auto keys =
            co_await wrap_again(self.call_, self.keys_, found->record, "next", self.report_);
        EXPECT_TRUE(keys.has_value());
        EXPECT_TRUE(
            co_await replace_keys(self.call_, self.store_, self.record_.id, found->epoch, *keys));
        // A client that read the record before does not undo the change.
        const auto late = co_await replace_keys(self.call_, self.store_, self.record_.id,
                                                found->epoch, found->record);
        EXPECT_EQ(late.error().code, Code::condition_failed);
    }(*this));
    std::filesystem::remove(path("acme"));
    EXPECT_EQ(read_file(), text_);
}

// A mount continues for a time after its key was removed, and uses a key that replaced it.
TEST_F(EncryptedContainers, RemovedKeyIsUsedForALimitedTime) {
    encrypt("acme");
    write_file();
    auto opened = open(report_);
    ASSERT_TRUE(opened.has_value());
    const auto read_after = [&](Duration pause) {
        const int done = world_.run(
            [](EncryptedContainers& self, fs::FileSystem& files, Duration time) -> Task<int> {
                co_await sleep_for(self.world_.core(), time);
                const auto entry = co_await files.lookup(self.call_, fs::root_node, "file");
                const auto file = co_await files.open(self.call_, entry->node, {});
                std::array<std::byte, 100> into{};
                const auto read = co_await files.pread(self.call_, file->handle,
                                                       object::Window::local(Bytes(into)), 0);
                (void)co_await files.close(self.call_, file->handle);
                co_return read.has_value() ? 0 : to_errno(read.error());
            }(*this, **opened, pause));
        wait(std::chrono::milliseconds(2));
        return done;
    };
    EXPECT_EQ(read_after(std::chrono::minutes(1)), 0);
    std::filesystem::remove(path("acme"));
    EXPECT_EQ(read_after(std::chrono::minutes(1)), 0);
    EXPECT_EQ(read_after(std::chrono::minutes(4)), 0);
    EXPECT_EQ(read_after(std::chrono::minutes(1)), EKEYREJECTED);
    EXPECT_EQ(read_after(std::chrono::seconds(1)), EKEYREJECTED);
    write_key("acme", digits_);
    EXPECT_EQ(read_after(std::chrono::minutes(1)), 0);
}

// Requests with short deadlines do not prevent the check of the key.
TEST_F(EncryptedContainers, ShortDeadlinesDoNotDelayTheKeyCheck) {
    encrypt("acme");
    write_file();
    auto opened = open(report_);
    ASSERT_TRUE(opened.has_value());
    std::filesystem::remove(path("acme"));
    store_.fetch_takes = std::chrono::milliseconds(1);
    const auto read = [&](Duration limit) {
        return world_.run(
            [](EncryptedContainers& self, fs::FileSystem& files, Duration time) -> Task<int> {
                const auto entry = co_await files.lookup(self.call_, fs::root_node, "file");
                const auto file = co_await files.open(self.call_, entry->node, {});
                std::array<std::byte, 100> into{};
                const Call call{.deadline = self.world_.core().now() + time};
                const auto read =
                    co_await files.pread(call, file->handle, object::Window::local(Bytes(into)), 0);
                (void)co_await files.close(self.call_, file->handle);
                co_return read.has_value() ? 0 : to_errno(read.error());
            }(*this, **opened, limit));
    };
    int last = 0;
    for (int i = 0; i < 40; ++i) {
        wait(std::chrono::seconds(10));
        EXPECT_NE(read(std::chrono::microseconds(100)), 0);
        last = read(std::chrono::minutes(1));
    }
    EXPECT_EQ(last, EKEYREJECTED);
}

TEST_F(EncryptedContainers, ContainerWithFilesIsNotEncryptedLater) {
    world_.run([](EncryptedContainers& self) -> Task<> {
        const auto made = co_await fs::create_container(self.call_, self.world_.core(), self.store_,
                                                        {.label = "c"}, {}, self.report_);
        self.record_ = *made;
    }(*this));
    write_file();
    Report report;
    const auto done =
        world_.run(fs::require_decryption(call_, store_, record_, put_keys("x"), report));
    EXPECT_EQ(done.error().code, Code::not_empty);
    EXPECT_EQ(read_file(), text_);
}

// The store of a process that is killed after some requests.
class KilledStore final : public object::ForwardingStore {
  public:
    KilledStore(ObjectStore& below, int requests) : ForwardingStore(below), left_(requests) {}
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override {
        if (!lives()) co_return fail(Code::closed);
        co_return co_await below().fetch(call, container, items);
    }
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override {
        if (!lives()) co_return fail(Code::closed);
        co_return co_await below().update(call, container, transaction);
    }
    Task<Result<object::ContainerRecord>> create_container(
        const Call& call, const object::ContainerProperties& properties) override {
        if (!lives()) co_return fail(Code::closed);
        co_return co_await below().create_container(call, properties);
    }
    Task<Result<>> destroy_container(const Call& call, object::ContainerId container) override {
        if (!lives()) co_return fail(Code::closed);
        co_return co_await below().destroy_container(call, container);
    }

  private:
    bool lives() { return --left_ >= 0; }
    int left_;
};

// Creates the container "c" through a store that is killed. True: it was successful.
Task<bool> create_encrypted(EncryptedContainers& self, object::ObjectStore& store) {
    Report unused;
    const auto made = co_await fs::create_container(self.call_, self.world_.core(), store,
                                                    {.label = "c"}, {}, unused);
    if (!made) co_return false;
    const auto keys = co_await make_keys(self.call_, self.keys_, "acme", store.features(), unused);
    const std::string bytes = encode(*keys);
    co_return (co_await fs::require_decryption(self.call_, store, *made, put_keys(bytes), unused))
        .has_value();
}

TEST_F(EncryptedContainers, KilledCreationHoldsNothingAndIsRemovable) {
    int empty = 0, unformatted = 0, requests = 0;
    for (bool done = false; !done; ++requests) {
        ASSERT_LT(requests, 20);
        KilledStore killed(store_, requests);
        done = world_.run(create_encrypted(*this, killed));
        const auto listed = world_.run(store_.list_containers(call_));
        ASSERT_TRUE(listed.has_value());
        if (listed->empty()) continue;
        const object::ContainerRecord record = listed->front();
        Report report;
        const auto plain = open(nullptr, report);
        EXPECT_FALSE(done && plain.has_value());
        if (plain) {
            ++empty;
            const auto entries = world_.run(store_.list(
                call_, record.id, {.what = object::ListRequest::What::objects, .limit = 100}));
            EXPECT_EQ(entries->entries.size(), 2U);  // the root and the counter of nodes
            // It is not taken for an encrypted container: it has no keys.
            const auto found = world_.run(find_keys(call_, store_, record.id, "c", report));
            EXPECT_EQ(found.error().code, Code::not_found);
        } else if (!done) {
            ++unformatted;
            EXPECT_THAT(report.text(), HasSubstr("no file system"));
        }
        EXPECT_TRUE(world_.run(store_.destroy_container(call_, record.id)));
    }
    EXPECT_GT(empty, 0);
    EXPECT_GT(unformatted, 0);
    encrypt("acme");
    write_file();
    EXPECT_EQ(read_file(), text_);
}

// Creates the container "c", which is encrypted from the beginning.
Task<Result<object::ContainerRecord>> create_with_keys(EncryptedContainers& self, const Call& call,
                                                       object::ObjectStore& store) {
    Report unused;
    const auto keys = co_await make_keys(self.call_, self.keys_, "acme", store.features(), unused);
    const std::string bytes = encode(*keys);
    const object::Operation put = put_keys(bytes);
    co_return co_await fs::create_container(call, self.world_.core(), store, {.label = "c"}, {},
                                            unused, &put);
}

TEST_F(EncryptedContainers, ContainerCreatedWithKeysIsNeverPlain) {
    int unformatted = 0, requests = 0;
    for (bool done = false; !done; ++requests) {
        ASSERT_LT(requests, 20);
        KilledStore killed(store_, requests);
        done = world_.run(create_with_keys(*this, call_, killed)).has_value();
        const auto listed = world_.run(store_.list_containers(call_));
        ASSERT_TRUE(listed.has_value());
        if (listed->empty()) continue;
        Report report;
        EXPECT_FALSE(open(nullptr, report).has_value());
        if (done) break;
        ++unformatted;
        EXPECT_THAT(report.text(), HasSubstr("no file system"));
        EXPECT_TRUE(world_.run(store_.destroy_container(call_, listed->front().id)));
    }
    EXPECT_GT(unformatted, 0);
    write_file();
    EXPECT_EQ(read_file(), text_);
}

// Stops its caller when it has created a container.
class StoppingStore final : public object::ForwardingStore {
  public:
    StoppingStore(ObjectStore& below, StopSource& stop) : ForwardingStore(below), stop_(stop) {}
    Task<Result<object::ContainerRecord>> create_container(
        const Call& call, const object::ContainerProperties& properties) override {
        auto made = co_await below().create_container(call, properties);
        stop_.request_stop();
        co_return made;
    }

  private:
    StopSource& stop_;
};

TEST_F(EncryptedContainers, StoppedCreationIsRemovedUnlessRepeatable) {
    const UpdateName name{.client = Uuid::make(world_.secrets()), .sequence = 1};
    for (const UpdateName* update : {static_cast<const UpdateName*>(nullptr), &name}) {
        StopSource stop;
        StoppingStore stopping(store_, stop);
        const auto made =
            world_.run(create_with_keys(*this, {.stop = stop.token(), .update = update}, stopping));
        EXPECT_EQ(made.error().code, Code::cancelled);
        const auto listed = world_.run(store_.list_containers(call_));
        EXPECT_EQ(listed->size(), update == nullptr ? 0U : 1U);
    }
}

TEST_F(EncryptedContainers, DamagedKeysDifferFromMissingOnes) {
    encrypt("acme");
    ASSERT_TRUE(world_.run([](EncryptedContainers& self) -> Task<Result<object::Commit>> {
        object::Transaction transaction;
        transaction.operations.push_back(put_keys("K"));
        co_return co_await self.store_.update(self.call_, self.record_.id, transaction);
    }(*this)));
    Report report;
    EXPECT_EQ(open(report).error().code, Code::corrupt);
    EXPECT_THAT(report.text(), HasSubstr("are damaged"));
}

}  // namespace
}  // namespace ros2s::cipher
