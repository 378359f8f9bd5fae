#include "tree_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ros2s/base/uuid.h"
#include "ros2s/sim/no_call.h"

namespace ros2s::sim {
namespace {

constexpr size_t names_max = 6;
constexpr uint64_t size_max = 90'000;  // larger files do not grow
constexpr Duration late = std::chrono::seconds(5);

fs::Window window_of(std::string& bytes) {
    return fs::Window::local(std::as_writable_bytes(std::span(bytes)));
}

std::string block_of(uint64_t stamp) {
    std::string bytes(SharedFiles::block_bytes, '\0');
    for (size_t at = 0; at < bytes.size(); at += sizeof stamp) {
        std::memcpy(bytes.data() + at, &stamp, sizeof stamp);
    }
    return bytes;
}

}  // namespace

// ---- the files of all ----------------------------------------------------------------------

Task<Result<>> SharedFiles::prepare(fs::FileSystem& files) {
    for (size_t i = 0; i < directories.size(); ++i) {
        ROS2S_CO_TRY_ASSIGN(const auto made, co_await files.mkdir(no_call, fs::root_node,
                                                                  fmt::format("d{}", i), 0755, {}));
        directories.at(i) = made.node;
    }
    for (fs::NodeId* const node : {&log, &blocks}) {
        ROS2S_CO_TRY_ASSIGN(
            const auto made,
            co_await files.create(no_call, fs::root_node, node == &log ? "log" : "blocks", 0644,
                                  {.write = true, .exclusive = true}, {}));
        *node = made.attributes.node;
        const std::string zeros(node == &log ? 0 : blocks_max * block_bytes, '\0');
        if (!zeros.empty()) {
            ROS2S_CO_TRY(
                co_await files.pwrite(no_call, made.handle, fs::Window::local(as_bytes(zeros)), 0));
        }
        ROS2S_CO_TRY(co_await files.close(no_call, made.handle));
    }
    co_return Result<>{};
}

Task<> SharedFiles::judge(fs::FileSystem& files) {
    std::string text(size_t{1} << 20, '\0');
    const auto file = co_await files.open(no_call, log, {});
    const auto got = file ? co_await files.pread(no_call, file->handle, window_of(text), 0)
                          : Result<uint64_t>(fail(file.error()));
    if (file) (void)co_await files.close(no_call, file->handle);
    if (!got) {
        problems.push_back("the log: " + describe(got.error()));
        co_return;
    }
    std::map<std::string, size_t> found;
    std::string_view rest = std::string_view(text).substr(0, *got);
    while (!rest.empty()) {
        const size_t end = std::min(rest.find(']'), rest.size() - 1);
        ++found[std::string(rest.substr(0, end + 1))];
        rest.remove_prefix(end + 1);
    }
    for (const auto& [record, count] : found) {
        if (records.contains(record) && count == 1) continue;
        problems.push_back(fmt::format("the log has {} {} times", record, count));
    }
    for (const auto& [record, is_acknowledged] : records) {
        if (is_acknowledged && !found.contains(record)) problems.push_back("lost: " + record);
    }
}

// ---- the operations of one -----------------------------------------------------------------

TreeWork::TreeWork(uint64_t seed, std::string name, bool is_named, Reactor& reactor,
                   SharedFiles& shared)
    : random_(seed),
      name_(std::move(name)),
      is_named_(is_named),
      reactor_(reactor),
      shared_(shared),
      update_{.client = Uuid::make(reactor.secrets()), .digest = 1} {}

TreeWork::Name TreeWork::fresh() {
    return {random_.below(2), fmt::format("{}-{}", name_, ++next_)};
}

// An empty one, if there is none.
TreeWork::Name TreeWork::any(bool is_directory) {
    std::vector<Name> names;
    for (const auto& [name, file] : model_.names) {
        if (model_.files.at(file).is_directory == is_directory) names.push_back(name);
    }
    return names.empty() ? Name{} : names[random_.below(names.size())];
}

TreeWork::Operation TreeWork::draw() {
    using Kind = Operation::Kind;
    const bool is_full = model_.names.size() >= names_max;
    Operation made{.kind = random_.one_in(5) ? Kind::mkdir : Kind::create, .to = fresh()};
    const bool is_directory = random_.one_in(6);
    const Name from = any(is_directory);
    if (from.text.empty() || model_.names.size() < 2) return made;
    const uint64_t number = model_.names.at(from);
    const uint64_t size = model_.files.at(number).bytes.size();
    const uint64_t kind = random_.below(16);
    if (kind < 2) {
        return {.kind = Kind::rename,
                .from = from,
                .to = random_.one_in(2) ? any(is_directory) : fresh()};
    }
    if (kind == 2) {
        const Name to = any(random_.one_in(3) != is_directory);
        return {.kind = Kind::exchange, .from = from, .to = to.text.empty() ? from : to};
    }
    const bool is_last_name = facts_of(model_).at(from).links == 1;
    if (kind < 5 || is_full) {
        return {.kind = Kind::unlink,
                .from = from,
                .bytes = "afterwards",
                .is_directory = is_directory,
                .is_open = !is_directory && is_last_name && random_.one_in(2)};
    }
    if (kind == 5 || is_directory) return made;
    // In an omap, or, if they are more than 16 KiB, in the data pool.
    const uint64_t length =
        random_.one_in(3) ? 16'000 + random_.below(20'000) : random_.below(6000);
    std::string bytes(length + 1, static_cast<char>('a' + random_.below(26)));
    if (kind < 8 && size < size_max) return {.kind = Kind::append, .from = from, .bytes = bytes};
    if (kind == 8) {
        const uint64_t offset = random_.below(size + 1);
        bytes.resize(
            std::min<uint64_t>(bytes.size(), trial_chunk_bytes - offset % trial_chunk_bytes));
        return {.kind = Kind::write, .from = from, .offset = offset, .bytes = bytes};
    }
    if (kind == 9) {
        return {.kind = Kind::truncate,
                .from = from,
                .offset = random_.below(std::min(size, size_max) + 3000)};
    }
    if (kind == 10) return {.kind = Kind::link, .from = from, .to = fresh()};
    if (kind == 11) return {.kind = Kind::read, .from = from};
    if (kind < 14) {
        Operation append{.kind = Kind::append_record,
                         .bytes = fmt::format("[{}:{}]", name_, ++next_)};
        shared_.records[append.bytes] = false;
        return append;
    }
    const size_t block = random_.below(SharedFiles::blocks_max);
    if (kind == 14) return {.kind = Kind::read_block, .offset = block};
    return {.kind = Kind::write_block,
            .offset = block,
            .stamp = shared_.history.begin(block, reactor_.now())};
}

std::string TreeWork::describe_operation(const Operation& operation) {
    static constexpr std::array<const char*, 13> kinds{
        "create",    "mkdir", "append", "write", "truncate",          "rename",
        "exchange",  "link",  "unlink", "read",  "append to the log", "write block",
        "read block"};
    return fmt::format("{} {} {} {}+{}", kinds.at(static_cast<size_t>(operation.kind)),
                       operation.from.text, operation.to.text, operation.offset,
                       operation.bytes.size());
}

void TreeWork::apply(Model& model, const Operation& operation, uint64_t number) {
    using Kind = Operation::Kind;
    const auto file = [&]() -> File& { return model.files.at(model.names.at(operation.from)); };
    switch (operation.kind) {
        case Kind::create:
        case Kind::mkdir:
            model.files[number] = {.is_directory = operation.kind == Kind::mkdir, .bytes = {}};
            model.names[operation.to] = number;
            return;
        case Kind::append: file().bytes += operation.bytes; return;
        case Kind::write: {
            std::string& bytes = file().bytes;
            bytes.resize(std::max<size_t>(bytes.size(), operation.offset + operation.bytes.size()));
            bytes.replace(operation.offset, operation.bytes.size(), operation.bytes);
            return;
        }
        case Kind::truncate: file().bytes.resize(operation.offset); return;
        case Kind::rename: {
            const uint64_t moved = model.names.at(operation.from);
            const auto to = model.names.find(operation.to);
            // Two names of one file: nothing happens.
            if (to != model.names.end() && to->second == moved) return;
            model.names[operation.to] = moved;
            model.names.erase(operation.from);
            return;
        }
        case Kind::exchange:
            std::swap(model.names.at(operation.from), model.names.at(operation.to));
            return;
        case Kind::link: model.names[operation.to] = model.names.at(operation.from); return;
        case Kind::unlink: model.names.erase(operation.from); return;
        case Kind::read:
        case Kind::append_record:
        case Kind::write_block:
        case Kind::read_block: return;
    }
}

Task<Result<>> TreeWork::work(fs::FileSystem& files, const bool& stop) {
    while (!stop) {
        ++update_.sequence;
        may_repeat_ = is_named_;
        is_seen_ = false;
        tried_ = draw();
        Call call;
        if (is_named_) call.update = &update_;
        ROS2S_CO_TRY(co_await execute(files, *tried_, call));
        done(*tried_);
        tried_.reset();
    }
    co_return Result<>{};
}

void TreeWork::done(const Operation& operation) {
    if (!is_seen_) apply(model_, operation, ++next_);
    if (operation.kind == Operation::Kind::append_record) shared_.records[operation.bytes] = true;
    if (operation.kind == Operation::Kind::write_block) {
        shared_.history.acknowledged(operation.offset, operation.stamp, reactor_.now());
    }
    ++operations_;
}

Task<Result<>> TreeWork::execute(fs::FileSystem& files, const Operation& operation,
                                 const Call& call) {
    using Kind = Operation::Kind;
    const auto& [kind, from, to, offset, stamp, bytes, is_directory, is_open] = operation;
    switch (kind) {
        case Kind::create: {
            ROS2S_CO_TRY_ASSIGN(const auto made,
                                co_await files.create(call, directory(to), to.text, 0644,
                                                      {.write = true, .exclusive = true}, {}));
            co_return co_await files.close(no_call, made.handle);
        }
        case Kind::mkdir: {
            const auto made = co_await files.mkdir(call, directory(to), to.text, 0755, {});
            co_return made ? Result<>() : fail(made.error());
        }
        case Kind::rename:
        case Kind::exchange:
            co_return co_await files.rename(call, directory(from), from.text, directory(to),
                                            to.text, {.exchange = kind == Kind::exchange});
        case Kind::append_record: co_return co_await write_to(files, shared_.log, operation, call);
        case Kind::write_block: co_return co_await write_to(files, shared_.blocks, operation, call);
        case Kind::read_block: co_return co_await read_block(files, offset);
        case Kind::unlink: {
            if (is_open && !call.repeated) co_return co_await unlink_open(files, operation, call);
            co_return is_directory ? co_await files.rmdir(call, directory(from), from.text)
                                   : co_await files.unlink(call, directory(from), from.text);
        }
        case Kind::append:
        case Kind::write:
        case Kind::truncate:
        case Kind::link:
        case Kind::read: break;
    }
    ROS2S_CO_TRY_ASSIGN(const auto found,
                        co_await files.lookup(no_call, directory(from), from.text));
    if (kind == Kind::truncate) {
        const auto set = co_await files.set_attributes(call, found.node, {.size = offset});
        co_return set ? Result<>() : fail(set.error());
    }
    if (kind == Kind::link) {
        const auto linked = co_await files.link(call, found.node, directory(to), to.text);
        co_return linked ? Result<>() : fail(linked.error());
    }
    if (kind == Kind::read) {
        ROS2S_CO_TRY_ASSIGN(const auto read, co_await read_node(files, found.node));
        if (read != model_.files.at(model_.names.at(from)).bytes) {
            shared_.problems.push_back(from.text + " has other bytes than were written");
        }
        co_return Result<>{};
    }
    co_return co_await write_to(files, found.node, operation, call);
}

Task<Result<>> TreeWork::write_to(fs::FileSystem& files, fs::NodeId node,
                                  const Operation& operation, const Call& call) {
    using Kind = Operation::Kind;
    const bool appends = operation.kind == Kind::append || operation.kind == Kind::append_record;
    const bool is_block = operation.kind == Kind::write_block;
    const std::string bytes = is_block ? block_of(operation.stamp) : operation.bytes;
    const uint64_t offset =
        is_block ? operation.offset * SharedFiles::block_bytes : operation.offset;
    ROS2S_CO_TRY_ASSIGN(const auto file,
                        co_await files.open(no_call, node, {.write = true, .append = appends}));
    const auto put =
        co_await files.pwrite(call, file.handle, fs::Window::local(as_bytes(bytes)), offset);
    const auto closed = co_await files.close(no_call, file.handle);
    if (!put) co_return fail(put.error());
    if (*put != bytes.size()) co_return fail(Code::io);
    co_return closed;
}

// What is done to a file without a name is not found later. Without pins that bind others, another
// mount may remove the file (docs/formats/rados.md).
Task<Result<>> TreeWork::unlink_open(fs::FileSystem& files, const Operation& operation,
                                     const Call& call) {
    const Name& from = operation.from;
    ROS2S_CO_TRY_ASSIGN(const auto found,
                        co_await files.lookup(no_call, directory(from), from.text));
    ROS2S_CO_TRY_ASSIGN(const auto file,
                        co_await files.open(no_call, found.node, {.write = true, .append = true}));
    const auto outcome = co_await files.unlink(call, directory(from), from.text);
    if (!outcome) {  // perhaps the name stays, and the file as it was
        (void)co_await files.close(no_call, file.handle);
        co_return outcome;
    }
    std::string expected = model_.files.at(model_.names.at(from)).bytes + operation.bytes;
    std::string read(expected.size() + 1, '?');
    const auto put = co_await files.pwrite(no_call, file.handle,
                                           fs::Window::local(as_bytes(operation.bytes)), 0);
    const auto got = co_await files.pread(no_call, file.handle, window_of(read), 0);
    if (put && got && (read.resize(*got), read != expected)) {
        shared_.problems.push_back(from.text + " has other bytes when it is open without a name");
    }
    co_return co_await files.close(no_call, file.handle);
}

Task<Result<std::string>> TreeWork::read_node(fs::FileSystem& files, fs::NodeId node) {
    std::string bytes(size_max + 40'000, '?');
    ROS2S_CO_TRY_ASSIGN(const auto file, co_await files.open(no_call, node, {}));
    const auto got = co_await files.pread(no_call, file.handle, window_of(bytes), 0);
    (void)co_await files.close(no_call, file.handle);
    if (!got) co_return fail(got.error());
    bytes.resize(*got);
    co_return bytes;
}

Task<Result<>> TreeWork::read_block(fs::FileSystem& files, size_t block) {
    std::string bytes(SharedFiles::block_bytes, '?');
    ROS2S_CO_TRY_ASSIGN(const auto file, co_await files.open(no_call, shared_.blocks, {}));
    const Time begin = reactor_.now();
    const auto got = co_await files.pread(no_call, file.handle, window_of(bytes),
                                          block * SharedFiles::block_bytes);
    const Time end = reactor_.now();
    (void)co_await files.close(no_call, file.handle);
    if (!got) co_return fail(got.error());
    uint64_t stamp = 0;
    std::memcpy(&stamp, bytes.data(), sizeof stamp);
    std::string wrong = shared_.history.found(block, stamp, begin, end);
    if (*got != bytes.size() || bytes != block_of(stamp)) wrong = "a block is mixed";
    if (!wrong.empty()) shared_.problems.push_back(wrong);
    co_return Result<>{};
}

// ---- after a death -------------------------------------------------------------------------

Task<Result<bool>> TreeWork::repeat(fs::FileSystem& files) {
    if (!tried_ || !may_repeat_) co_return false;
    const Call call{.update = &update_, .repeated = true};
    ROS2S_CO_TRY(co_await execute(files, *tried_, call));
    ++repeated_;
    done(*tried_);
    tried_.reset();
    co_return true;
}

TreeWork::Facts TreeWork::facts_of(const Model& model) {
    Facts facts;
    for (const auto& [name, number] : model.names) {
        const auto links = std::ranges::count_if(
            model.names, [&](const auto& each) { return each.second == number; });
        const File& file = model.files.at(number);
        const auto same =
            std::ranges::find(model.names, number, [](const auto& each) { return each.second; });
        facts[name] = {.file = file, .links = static_cast<uint32_t>(links), .same = same->first};
    }
    return facts;
}

std::string TreeWork::difference(const Facts& one, const Facts& other) {
    std::string text;
    for (const auto& [name, fact] : one) {
        const auto same = other.find(name);
        if (same != other.end() && same->second == fact) continue;
        text +=
            fmt::format(" {} ({} bytes, {} links)", name.text, fact.file.bytes.size(), fact.links);
    }
    return text;
}

Task<Result<TreeWork::Facts>> TreeWork::find(fs::FileSystem& files) {
    Facts facts;
    std::map<fs::NodeId, std::vector<Name>> nodes;
    for (size_t i = 0; i < shared_.directories.size(); ++i) {
        const fs::NodeId parent = shared_.directories.at(i);
        ROS2S_CO_TRY_ASSIGN(const auto opened, co_await files.open(no_call, parent, {}));
        const auto listed = co_await files.readdir(no_call, opened.handle, 0, 4096);
        (void)co_await files.close(no_call, opened.handle);
        if (!listed) co_return fail(listed.error());
        for (const fs::DirectoryEntry& entry : *listed) {
            if (!entry.name.starts_with(name_ + "-")) continue;
            const auto found = co_await files.lookup(no_call, parent, entry.name);
            if (!found && found.error().code == Code::not_found) continue;  // it went meanwhile
            if (!found) co_return fail(found.error());
            nodes[found->node].push_back({i, entry.name});
            Fact& fact = facts[{i, entry.name}];
            fact.file.is_directory = S_ISDIR(found->mode);
            fact.links = found->links;
            if (fact.file.is_directory) continue;
            ROS2S_CO_TRY_ASSIGN(fact.file.bytes, co_await read_node(files, found->node));
        }
    }
    for (const auto& [node, names] : nodes) {
        for (const Name& name : names) facts[name].same = std::ranges::min(names);
    }
    co_return facts;
}

// A late commit can take effect between the requests of a look, once.
Task<> TreeWork::look(fs::FileSystem& files, bool is_over) {
    Model after = model_;
    if (tried_ && !is_seen_) apply(after, *tried_, next_ + 1);
    std::string last;
    for (int attempt = 0; attempt < 2; ++attempt) {
        if (attempt > 0) co_await sleep_for(reactor_, late);
        const auto found = co_await find(files);
        if (!found) {
            last = describe(found.error());
            continue;
        }
        last = fmt::format("[{} ], not [{} ]", difference(*found, facts_of(model_)),
                           difference(facts_of(model_), *found));
        const bool is_before = *found == facts_of(model_);
        if (!is_before && *found != facts_of(after)) continue;
        if (!is_before) {
            ++next_;
            model_ = std::move(after);
            is_seen_ = true;
        }
        // What is seen stays; what is not seen may be done still.
        if (tried_ && !may_repeat_ && (is_over || !is_before)) tried_.reset();
        co_return;
    }
    shared_.problems.push_back(fmt::format("{} finds {}, neither before nor after {}", name_, last,
                                           tried_ ? describe_operation(*tried_) : "nothing"));
}

Task<Result<>> TreeWork::remove_all(fs::FileSystem& files) {
    while (!model_.names.empty()) {
        const Name name = model_.names.begin()->first;
        const bool is_directory = model_.files.at(model_.names.begin()->second).is_directory;
        ROS2S_CO_TRY(is_directory ? co_await files.rmdir(no_call, directory(name), name.text)
                                  : co_await files.unlink(no_call, directory(name), name.text));
        model_.names.erase(name);
    }
    co_return Result<>{};
}

}  // namespace ros2s::sim
