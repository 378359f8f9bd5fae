#include "shared_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "ros2s/sim/no_call.h"

namespace ros2s::sim {
namespace {

constexpr uint64_t block_bytes = 4096;
constexpr size_t blocks = 12;
constexpr uint64_t names_max = 400;
constexpr uint64_t tokens = 40;
constexpr uint64_t appends_max = 60;  // of a client
constexpr uint64_t log_bytes_max = 1 << 20;

std::string record(size_t client, uint64_t round) {
    return fmt::format("<{}:{}:{}>\n", client, round,
                       std::string(client * 100 + round % 50 * 7, 'a'));
}
std::string prize(uint64_t k) { return fmt::format("prize-{}", k); }
std::string token(uint64_t k) { return fmt::format("token-{}", k); }
std::string taken(uint64_t k, size_t client) { return fmt::format("taken-{}-by-{}", k, client); }

// The stamp that fills a block; empty if the block is not uniform.
std::string stamped(uint64_t stamp) {
    std::string bytes;
    while (bytes.size() < block_bytes) bytes += as_text(object_bytes(stamp));
    return bytes;
}
uint64_t stamp_of(std::string_view block) {
    uint64_t stamp = 0;
    std::memcpy(&stamp, block.data(), sizeof stamp);
    return block == stamped(stamp) ? stamp : ~uint64_t{0};
}

}  // namespace

SharedWork::SharedWork(Reactor& reactor, size_t clients)
    : reactor_(reactor),
      clients_(clients),
      created_(names_max),
      renamed_(tokens),
      blocks_(blocks) {}

SharedWork::Totals& SharedWork::Totals::operator+=(const Totals& other) {
    appends += other.appends;
    creations += other.creations;
    renames += other.renames;
    reads += other.reads;
    writes += other.writes;
    return *this;
}

Task<Result<>> SharedWork::prepare(fs::FileSystem& files) {
    std::vector<std::string> names{"log", "blocks"};
    for (uint64_t k = 0; k < tokens; ++k) names.push_back(token(k));
    for (const std::string& name : names) {
        ROS2S_CO_TRY_ASSIGN(const auto made, co_await files.create(no_call, fs::root_node, name,
                                                                   0644, {.write = true}, {}));
        if (name == "blocks") {
            const std::string zeros(blocks * block_bytes, '\0');
            ROS2S_CO_TRY(
                co_await files.pwrite(no_call, made.handle, fs::Window::local(as_bytes(zeros)), 0));
        }
        ROS2S_CO_TRY(co_await files.close(no_call, made.handle));
    }
    co_return Result<>{};
}

Task<Result<>> SharedWork::step(size_t client, fs::FileSystem& files, Random& random) {
    switch (random.below(8)) {
        case 0:
        case 1: return append(client, files);
        case 2: return create(client, files);
        case 3: return rename(client, files);
        case 4: return read_log(client, files);
        case 5: return write(client, files, random);
        default: return read(client, files, random);
    }
}

Task<Result<fs::FileHandle>> SharedWork::open(fs::FileSystem& files, std::string name,
                                              fs::OpenFlags flags) {
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await files.lookup(no_call, fs::root_node, name));
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await files.open(no_call, found.node, flags));
    co_return opened.handle;
}

Task<Result<std::string>> SharedWork::read_all(fs::FileSystem& files, std::string name) {
    ROS2S_CO_TRY_ASSIGN(const auto file, co_await open(files, name, {}));
    std::string text(log_bytes_max, '\0');
    const auto got = co_await files.pread(
        no_call, file, fs::Window::local(std::as_writable_bytes(std::span(text))), 0);
    ROS2S_CO_TRY(co_await files.close(no_call, file));
    ROS2S_CO_TRY(got);
    text.resize(*got);
    co_return text;
}

// ---- the log -------------------------------------------------------------------------------

Task<Result<>> SharedWork::append(size_t client, fs::FileSystem& files) {
    const uint64_t round = clients_[client].appended;
    if (round == appends_max) co_return Result<>{};
    ++totals_.appends;
    ROS2S_CO_TRY_ASSIGN(const auto log,
                        co_await open(files, "log", {.write = true, .append = true}));
    const std::string text = record(client, round);
    ROS2S_CO_TRY(co_await files.pwrite(no_call, log, fs::Window::local(as_bytes(text)), 0));
    ++clients_[client].appended;
    co_return co_await files.close(no_call, log);
}

Task<Result<>> SharedWork::read_log(size_t client, fs::FileSystem& files) {
    ++totals_.reads;
    const uint64_t appended = clients_[client].appended;
    ROS2S_CO_TRY_ASSIGN(const std::string text, co_await read_all(files, "log"));
    if (appended == 0 || text.find(record(client, appended - 1)) != text.npos) {
        co_return Result<>{};
    }
    problems_.push_back(
        fmt::format("client {} does not find its append {} in the log", client, appended - 1));
    co_return Result<>{};
}

void SharedWork::judge_log(const std::string& text) {
    std::vector<uint64_t> next(clients_.size());
    size_t at = 0;
    while (at < text.size()) {
        size_t client = 0;
        for (; client < clients_.size(); ++client) {
            const std::string expected = record(client, next[client]);
            if (text.compare(at, expected.size(), expected) == 0) break;
        }
        if (client == clients_.size()) {
            problems_.push_back(fmt::format(
                "at {} of the log is nothing that should come there: {}", at, text.substr(at, 20)));
            return;
        }
        at += record(client, next[client]).size();
        ++next[client];
    }
    for (size_t client = 0; client < clients_.size(); ++client) {
        if (next[client] == clients_[client].appended) continue;
        problems_.push_back(fmt::format("{} appends of client {} are in the log, not {}",
                                        next[client], client, clients_[client].appended));
    }
}

// ---- names that only one gets --------------------------------------------------------------

Task<Result<>> SharedWork::create(size_t client, fs::FileSystem& files) {
    const uint64_t k = clients_[client].name;
    if (k == names_max) co_return Result<>{};
    ++clients_[client].name;
    ++totals_.creations;
    const auto made = co_await files.create(no_call, fs::root_node, prize(k), 0644,
                                            {.write = true, .exclusive = true}, {});
    if (!made && made.error().code == Code::exists) co_return Result<>{};
    ROS2S_CO_TRY(made);
    created_[k].push_back(client);
    co_return co_await files.close(no_call, made->handle);
}

Task<Result<>> SharedWork::rename(size_t client, fs::FileSystem& files) {
    const uint64_t k = clients_[client].token;
    if (k == tokens) co_return Result<>{};
    ++clients_[client].token;
    ++totals_.renames;
    const auto renamed = co_await files.rename(no_call, fs::root_node, token(k), fs::root_node,
                                               taken(k, client), {.no_replace = true});
    if (!renamed && renamed.error().code == Code::not_found) co_return Result<>{};
    ROS2S_CO_TRY(renamed);
    renamed_[k].push_back(client);
    co_return Result<>{};
}

void SharedWork::judge_winners(std::string_view what, const Winners& winners, uint64_t tried) {
    for (uint64_t k = 0; k < tried; ++k) {
        if (winners[k].size() == 1) continue;
        problems_.push_back(fmt::format("{} {} was won by {} clients", what, k, winners[k].size()));
    }
}

Task<> SharedWork::judge_names(fs::FileSystem& files) {
    const uint64_t created = std::ranges::max(clients_, {}, &Client::name).name;
    const uint64_t renamed = std::ranges::max(clients_, {}, &Client::token).token;
    judge_winners("name", created_, created);
    judge_winners("token", renamed_, renamed);
    std::set<std::string> expected;
    for (uint64_t k = 0; k < created; ++k) expected.insert(prize(k));
    for (uint64_t k = 0; k < tokens; ++k) {
        if (k >= renamed) expected.insert(token(k));
        for (const size_t client : renamed_[k]) expected.insert(taken(k, client));
    }
    const auto root = co_await files.open(no_call, fs::root_node, {});
    if (!root) co_return problems_.push_back("the root does not open");
    uint64_t cookie = 0;
    while (true) {
        const auto page = co_await files.readdir(no_call, root->handle, cookie, 100);
        if (!page || page->empty()) break;
        for (const auto& entry : *page) {
            const bool ours = entry.name.starts_with("prize-") ||
                              entry.name.starts_with("token-") || entry.name.starts_with("taken-");
            if (ours && expected.erase(entry.name) == 0) {
                problems_.push_back(entry.name + " should not be there");
            }
        }
        cookie = page->back().cookie;
    }
    (void)co_await files.close(no_call, root->handle);
    for (const std::string& name : expected) problems_.push_back(name + " is not there");
}

// ---- blocks --------------------------------------------------------------------------------

// Open for many operations, and so across restarts of the processes between.
Task<Result<fs::FileHandle>> SharedWork::blocks_of(size_t client, fs::FileSystem& files,
                                                   Random& random) {
    std::optional<fs::FileHandle>& open_file = clients_[client].blocks;
    if (open_file && random.one_in(10)) {
        ROS2S_CO_TRY(co_await files.close(no_call, *open_file));
        open_file.reset();
    }
    if (!open_file) {
        ROS2S_CO_TRY_ASSIGN(open_file, co_await open(files, "blocks", {.write = true}));
    }
    co_return *open_file;
}

// One block or a few.
Task<Result<>> SharedWork::write(size_t client, fs::FileSystem& files, Random& random) {
    ++totals_.writes;
    const uint64_t first = random.below(blocks);
    const uint64_t count = 1 + random.below(std::min<uint64_t>(3, blocks - first));
    ROS2S_CO_TRY_ASSIGN(const auto file, co_await blocks_of(client, files, random));
    std::string bytes;
    std::vector<uint64_t> stamps;
    for (uint64_t i = 0; i < count; ++i) {
        stamps.push_back(blocks_.begin(first + i, reactor_.now()));
        bytes += stamped(stamps.back());
    }
    ROS2S_CO_TRY(co_await files.pwrite(no_call, file, fs::Window::local(as_bytes(bytes)),
                                       first * block_bytes));
    for (uint64_t i = 0; i < count; ++i) {
        blocks_.acknowledged(first + i, stamps[i], reactor_.now());
    }
    co_return Result<>{};
}

Task<Result<>> SharedWork::read(size_t client, fs::FileSystem& files, Random& random) {
    ++totals_.reads;
    const uint64_t first = random.below(blocks);
    const uint64_t count = 1 + random.below(blocks - first);
    ROS2S_CO_TRY_ASSIGN(const auto file, co_await blocks_of(client, files, random));
    std::string bytes(count * block_bytes, '?');
    const Time begin = reactor_.now();
    const auto got = co_await files.pread(
        no_call, file, fs::Window::local(std::as_writable_bytes(std::span(bytes))),
        first * block_bytes);
    ROS2S_CO_TRY(got);
    bytes.resize(*got);
    look(bytes, first, begin);
    co_return Result<>{};
}

void SharedWork::look(std::string_view found, uint64_t first, Time begin) {
    for (uint64_t i = 0; (i + 1) * block_bytes <= found.size(); ++i) {
        const uint64_t stamp = stamp_of(found.substr(i * block_bytes, block_bytes));
        std::string wrong = blocks_.found(first + i, stamp, begin, reactor_.now());
        if (!wrong.empty()) problems_.push_back(std::move(wrong));
    }
}

Task<> SharedWork::judge(fs::FileSystem& files) {
    co_await judge_names(files);
    const Time begin = reactor_.now();
    const auto bytes = co_await read_all(files, "blocks");
    if (!bytes || bytes->size() != blocks * block_bytes) {
        problems_.emplace_back("the blocks cannot be read, or have not the size they had");
    } else {
        look(*bytes, 0, begin);
    }
    const auto log = co_await read_all(files, "log");
    if (!log) co_return problems_.push_back("the log cannot be read");
    judge_log(*log);
}

}  // namespace ros2s::sim
