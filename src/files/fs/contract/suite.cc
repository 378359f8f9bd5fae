#include "suite.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace ros2s::fs::contract {
namespace {

class CaseTest : public testing::Test {
  public:
    CaseTest(Case tested, Traits traits, Factory factory)
        : case_(tested), traits_(traits), factory_(std::move(factory)) {}
    void TestBody() override {
        if (const auto lacked = traits_.lacks.find(case_.name); lacked != traits_.lacks.end()) {
            GTEST_SKIP() << lacked->second;
        }
        constexpr uint64_t seed = 7;
        const std::unique_ptr<Subject> subject = factory_(seed);
        ASSERT_NE(subject, nullptr);
        Fixture fixture(*subject, traits_, seed);
        subject->world().run(case_.run(fixture));
        subject->world().run(fixture.close_opened());
        subject->world().run(subject->file_system().close_all());
    }

  private:
    Case case_;
    Traits traits_;
    Factory factory_;
};

void add(const std::string& implementation, const std::string& suite, Cases cases,
         const Traits& traits, const Factory& factory) {
    if (!traits.suites.empty() && !traits.suites.contains(suite)) return;
    for (const Case& one : cases) {
        testing::RegisterTest((implementation + suite).c_str(), one.name, nullptr, nullptr,
                              __FILE__, __LINE__, [one, traits, factory]() -> testing::Test* {
                                  return new CaseTest(one, traits, factory);
                              });
    }
}

}  // namespace

bool register_contract(const std::string& implementation, Traits traits, Factory factory) {
    add(implementation, "Names", name_cases(), traits, factory);
    add(implementation, "Directories", directory_cases(), traits, factory);
    add(implementation, "Rename", rename_cases(), traits, factory);
    add(implementation, "Links", link_cases(), traits, factory);
    add(implementation, "Files", file_cases(), traits, factory);
    add(implementation, "Append", append_cases(), traits, factory);
    add(implementation, "Open", open_cases(), traits, factory);
    add(implementation, "Locks", traits.locks ? lock_cases() : Cases{}, traits, factory);
    add(implementation, "Attributes", attribute_cases(), traits, factory);
    add(implementation, "Xattrs", xattr_cases(), traits, factory);
    add(implementation, "AccessLists", traits.access_lists ? acl_cases() : Cases{}, traits,
        factory);
    add(implementation, "ReadMany", read_many_cases(), traits, factory);
    add(implementation, "Walk", walk_cases(), traits, factory);
    add(implementation, "Many", many_cases(), traits, factory);
    add(implementation, "Property", property_cases(), traits, factory);
    return true;
}

Task<NodeId> Fixture::directory(NodeId parent, std::string name, mode_t mode) {
    const auto made = co_await fs.mkdir(call, parent, name, mode, owner);
    EXPECT_OK(made) << "mkdir " << name;
    co_return made ? made->node : NodeId{};
}

Task<NodeId> Fixture::file(NodeId parent, std::string name, std::string contents, mode_t mode) {
    OpenFlags flags = writing;
    flags.exclusive = true;
    const auto made = co_await fs.create(call, parent, name, mode, flags, owner);
    EXPECT_OK(made) << "create " << name;
    if (!made) co_return NodeId{};
    if (!contents.empty()) co_await write(made->handle, contents, 0);
    co_await close(made->handle);
    co_return made->attributes.node;
}

Task<NodeId> Fixture::symlink(NodeId parent, std::string name, std::string target) {
    const auto made = co_await fs.symlink(call, parent, name, target, owner);
    EXPECT_OK(made) << "symlink " << name;
    co_return made ? made->node : NodeId{};
}

Task<FileHandle> Fixture::open(NodeId node, OpenFlags flags) {
    const auto opened = co_await fs.open(call, node, flags);
    EXPECT_OK(opened) << "open node " << node.value;
    if (opened) opened_.push_back(opened->handle);
    co_return opened ? opened->handle : FileHandle{};
}

Task<> Fixture::close(FileHandle handle) {
    std::erase(opened_, handle);
    EXPECT_OK(co_await fs.close(call, handle)) << "close";
}

Task<> Fixture::close_opened() {
    while (!opened_.empty()) co_await close(opened_.front());
}

Task<> Fixture::write(FileHandle handle, std::string contents, uint64_t offset) {
    const auto wrote = co_await fs.pwrite(call, handle, Window::local(as_bytes(contents)), offset);
    EXPECT_OK(wrote) << "write at " << offset;
    if (wrote) EXPECT_EQ(*wrote, contents.size());
}

Task<std::string> Fixture::read(FileHandle handle, uint64_t offset, uint64_t length) {
    std::string bytes(length, '?');
    const auto got = co_await fs.pread(
        call, handle, Window::local(std::as_writable_bytes(std::span(bytes))), offset);
    EXPECT_OK(got) << "read at " << offset;
    bytes.resize(got ? *got : 0);
    co_return bytes;
}

Task<std::string> Fixture::contents(NodeId node) {
    const FileHandle handle = co_await open(node, reading);
    const Attributes attributes = co_await stat(node);
    std::string bytes = co_await read(handle, 0, attributes.size + 10);
    EXPECT_EQ(bytes.size(), attributes.size);
    co_await close(handle);
    co_return bytes;
}

Task<Attributes> Fixture::stat(NodeId node) {
    const auto attributes = co_await fs.get_attributes(call, node);
    EXPECT_OK(attributes) << "attributes of node " << node.value;
    co_return attributes ? *attributes : Attributes{};
}

Task<NodeId> Fixture::node_of(NodeId parent, std::string name) {
    const auto found = co_await fs.lookup(call, parent, name);
    if (!found) EXPECT_FAILS(not_found, found) << "lookup of " << name;
    co_return found ? found->node : NodeId{};
}

Task<bool> Fixture::is_gone(NodeId node) {
    constexpr int looks_max = 250;
    for (int look = 0; look < looks_max; ++look) {
        const auto found = co_await fs.get_attributes(call, node);
        if (!found) co_return found.error().code == Code::stale;
        co_await later();
    }
    co_return false;
}

Task<bool> Fixture::exists(NodeId parent, std::string name) {
    co_return co_await node_of(parent, std::move(name)) != NodeId{};
}

Task<std::vector<std::string>> Fixture::names(NodeId node, size_t batch) {
    const FileHandle handle = co_await open(node, reading);
    std::vector<std::string> all;
    uint64_t cookie = 0;
    for (;;) {
        const auto entries = co_await fs.readdir(call, handle, cookie, batch);
        EXPECT_OK(entries) << "readdir";
        if (!entries || entries->empty()) break;
        EXPECT_LE(entries->size(), batch);
        for (const DirectoryEntry& entry : *entries) all.push_back(entry.name);
        cookie = entries->back().cookie;
    }
    co_await close(handle);
    std::ranges::sort(all);
    co_return all;
}

std::string Fixture::random_bytes(size_t count) {
    std::string bytes(count, '\0');
    for (char& c : bytes) c = static_cast<char>(random.next());
    return bytes;
}

bool directories_have_whiteouts() {
    std::string made = std::filesystem::temp_directory_path() / "ros2store-test-XXXXXX";
    const int file = ::mkstemp(made.data());
    if (file < 0) return false;
    (void)::close(file);
    const std::string moved = made + ".moved";
    const bool has_them =
        ::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, moved.c_str(), RENAME_WHITEOUT) == 0;
    (void)::unlink(made.c_str());
    (void)::unlink(moved.c_str());
    return has_them;
}

}  // namespace ros2s::fs::contract
