#include "link_server.h"

#include <fmt/format.h>

#include <algorithm>

#include "fields.h"
#include "ros2s/base/codec.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/digest.h"
#include "ros2s/object/checksum.h"
#include "ros2s/runtime/slices.h"
#include "straight_read.h"

namespace ros2s::hostlink {

void LinkServerMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_link_reads_total", "Reads of files by hosts.", reads.value());
    visit("ros2store_link_straight_reads_total", "Reads that went straight to the engine and back.",
          straight_reads.value());
    for (size_t i = 0; i < not_straight.size(); ++i) {
        visit(fmt::format("ros2store_link_reads_not_straight_{}_total", not_straight_names[i]),
              "Reads that took the general way, for this reason.", not_straight[i].value());
    }
    visit("ros2store_link_read_bytes_total", "Bytes that hosts read.", read_bytes.value());
    visit("ros2store_link_writes_total", "Writes to files by hosts.", writes.value());
    visit("ros2store_link_written_bytes_total", "Bytes that hosts wrote.", written_bytes.value());
    visit("ros2store_link_lookups_total",
          "Requests of hosts that change nothing: look-ups, space, handles and nodes let go.",
          lookups.value());
    visit("ros2store_link_changes_total",
          "Changes of names and attributes by hosts, and files that they opened.", changes.value());
    visit("ros2store_link_bad_checksums_total",
          "Writes refused because their bytes did not match the host's checksum.",
          bad_checksums.value());
    visit("ros2store_link_dpu_bytes_total",
          "Bytes of reads and writes that were copied through the DPU's memory.",
          dpu_bytes.value());
    visit("ros2store_link_host_bytes_total",
          "Bytes of reads and writes that were used in the host's memory.", host_bytes.value());
}

LinkServer::LinkServer(Reactor& reactor, session::SessionTable& sessions, session::Mounts& mounts,
                       Placement placement)
    : reactor_(reactor),
      sessions_(sessions),
      mounts_(mounts),
      placement_(placement),
      replies_(reactor),
      summing_(reactor) {
    sessions_.watch(*this);
}
LinkServer::~LinkServer() { sessions_.unwatch(*this); }

Task<> LinkServer::session_ending(session::Session& session) {
    replies_.forget(session.id);
    co_return;
}

Task<> LinkServer::serve(rpc::Request& request) {
    std::unique_ptr<Scratch> scratch;
    if (unused_.empty()) {
        scratch = std::make_unique<Scratch>(summing_);
    } else {
        scratch = std::move(unused_.back());
        unused_.pop_back();
    }
    const MethodRow* const method = find_method(request.method());
    Result<> done;
    if (method == nullptr) {
        done = fail(Code::unsupported);
    } else if (!method->has(gives_back) && sessions_.rights().is_over(request.arrived()))
        [[unlikely]] {
        done = co_await sessions_.wait_for_rights(request.call(), {request.guest().session});
    }
    if (done) done = co_await (this->*method->handler)(request, *scratch);
    if (!done) co_await request.fail(done.error());
    // For people both methods are writes.
    const bool in_pieces = request.method() == static_cast<uint16_t>(Method::write_pieces);
    times_.add(in_pieces ? static_cast<uint16_t>(Method::write) : request.method(), request.took());
    scratch->items.clear();
    if (unused_.size() < Scratch::kept_max && scratch->bytes() <= Scratch::kept_bytes_max) {
        unused_.push_back(std::move(scratch));
    }
}

void LinkServer::refused(const rpc::Request& request, const Error& why) {
    const session::Session* const session = sessions_.look({request.guest().session});
    if (session == nullptr) return;
    const session::SessionRequest& who = session->request;
    if (!sessions_.audit().has_room_for_request(session->audit_subject())) return;
    Decoder body(request.body());
    const session::MountId id{body.number<uint64_t>()};
    const fs::NodeId second{body.number<uint64_t>()};
    const MethodRow* const method = find_method(request.method());
    const bool shows_node = body.ok() && method != nullptr && method->has(has_node);
    AuditObject object{.pool = who.pool};
    if (const session::Mount* const mount = mounts_.look(*session, id)) {
        object = mount->object(shows_node ? second : fs::NodeId{});
    }
    sessions_.audit().write(
        event_of(*session, session::action_of(work(request)), object, AuditDecision::refused, why,
                 fmt::format("the request {} of {} ({}) in {}/{} was refused: {}",
                             method_name(request.method()), who.subject, who.from, object.pool,
                             object.container, describe(why))));
}

size_t LinkServer::kept_bytes() const {
    size_t bytes = 0;
    for (const auto& each : unused_) bytes += each->bytes();
    return bytes;
}

Result<LinkServer::MountInUse> LinkServer::enter(const rpc::Request& request,
                                                 session::MountId mount) {
    ROS2S_TRY_ASSIGN(auto session, sessions_.use({request.guest().session}, request.arrived()));
    ROS2S_TRY_ASSIGN(auto entered, mounts_.find(*session, mount));
    return MountInUse{std::move(session), std::move(entered)};
}
Result<LinkServer::MountInUse> LinkServer::enter(const rpc::Request& request,
                                                 const FileBody& file) {
    ROS2S_TRY_ASSIGN(auto entered, enter(request, file.mount));
    ROS2S_TRY(entered.mount->check(file.handle));
    return entered;
}

Result<fs::Caller> LinkServer::caller_for(rpc::Request& request, const MountInUse& entered,
                                          fs::UserClaim& claim) {
    auto caller = entered.mount->caller_for(claim);
    if (!caller) request.mark_refusal_reported();
    return caller;
}

Task<Result<>> LinkServer::read(rpc::Request& request, Scratch& scratch) {
    ROS2S_CO_TRY_ASSIGN(const FileBody file, rpc::read_body<FileBody>(request.body(), file_fields));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, file));
    co_return co_await read_file(request, scratch, entered.fs(), file.handle, file.offset);
}

// The handle counts while it is open. Under a lease the file system needs no request to open it.
Task<Result<>> LinkServer::read_node(rpc::Request& request, Scratch& scratch) {
    NodeReadBody asked;
    ROS2S_CO_TRY(rpc::read(request.body(), with_user(node_read_fields), scratch.user, asked));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, asked.mount));
    ROS2S_CO_TRY_ASSIGN(const fs::Caller caller, caller_for(request, entered, scratch.user));
    ROS2S_CO_TRY_ASSIGN(const session::HandleRoom room, entered.mount->reserve_handle());
    std::vector<Leased> leases;
    Call call = request.call();
    call.caller = &caller;
    const bool is_leased = entered.mount->is_lending();
    if (is_leased) call.leases = &leases;
    ROS2S_CO_TRY_ASSIGN(
        const fs::Opened opened,
        co_await entered.fs().open(call, asked.node, {.read = true, .leased = is_leased}));
    const auto read =
        co_await read_file(request, scratch, entered.fs(), opened.handle, asked.offset);
    const Call closing;
    (void)co_await entered.fs().close(closing, opened.handle);
    co_return read;
}

Task<Result<>> LinkServer::read_file(rpc::Request& request, Scratch& scratch, fs::FileSystem& files,
                                     fs::FileHandle handle, uint64_t offset) {
    ROS2S_CO_TRY_ASSIGN(Payload payload, co_await sink(request));
    Trace* const trace = payload.in_place() ? request.call().trace : nullptr;
    const Span span(trace, reactor_, "dpu.in_place");
    std::optional<uint32_t>& crc = scratch.checksums.whole;
    crc.reset();
    Call call = request.call();
    call.checksums = &scratch.checksums;
    ROS2S_CO_TRY_ASSIGN(const uint64_t bytes,
                        co_await files.pread(call, handle, payload.window, offset));
    const ConstBytes found = payload.window.bytes().first(bytes);
    if (!crc) {
        ROS2S_CO_TRY_ASSIGN(crc, found.size() <= slice_bytes
                                     ? crc32c(found)
                                     : co_await long_checksum(request.call(), found));
    }
    const ConstBytes body = encode_moved(scratch.answer, {.bytes = bytes, .crc = *crc});
    metrics_.reads.add();
    metrics_.read_bytes.add(bytes);
    count(payload, bytes);
    if (payload.in_place()) {
        payload.theirs.end();
        co_await request.reply_placed(body, bytes);
    } else if (request.fits_inline(body.size(), found.size())) {
        co_await request.reply(body, found);
    } else {
        ROS2S_CO_TRY(co_await request.place(0, found));
        co_await request.reply_placed(body, bytes);
    }
    co_return Result<>{};
}

namespace {

// The digest of an update, the same in a later process: without the numbers of mount and handle,
// which change.
Digest digest_of(const rpc::Request& request, const FileBody& file) {
    Digest digest;
    digest.add(request.method()).add(file.offset).add(file.length).add(file.crc);
    return digest.add(request.payload_bytes());
}

// Returns the body of an update, and the checksums of its payload. The host does not send those of
// the pieces if it does not know them: the offset of an append.
Result<FileBody> read_update(const rpc::Request& request, fs::PayloadChecksums& checksums) {
    checksums.differed = false;
    checksums.pieces.clear();
    FileBody file;
    if (request.method() != static_cast<uint16_t>(Method::write_pieces)) {
        ROS2S_TRY_ASSIGN(file, rpc::read_body<FileBody>(request.body(), file_fields));
    } else {
        ROS2S_TRY(rpc::read(request.body(), pieces_fields, file, checksums.pieces));
    }
    // The pieces depend on nothing else of an offset, which may be any number here.
    const uint64_t offset = file.offset % block_bytes, bytes = request.payload_bytes();
    const uint64_t pieces = object::piece_count(offset, bytes);
    if (request.method() == static_cast<uint16_t>(Method::write_pieces)) {
        if (pieces != checksums.pieces.size()) return fail(Code::corrupt);
        file.crc = object::combined_checksum(offset, bytes, checksums.pieces);
    } else if (pieces == 1) {
        checksums.pieces = {file.crc};
    }
    checksums.whole = file.crc;
    return file;
}

}  // namespace

Task<Result<>> LinkServer::update(rpc::Request& request, Scratch& scratch) {
    ROS2S_CO_TRY_ASSIGN(const FileBody file, read_update(request, scratch.checksums));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, file));
    if (entered.mount->read_only()) co_return fail(Code::read_only);
    const UpdateName id = request.operation();
    if (id.client != entered.session->request.client) co_return fail(Code::invalid);
    // The update has not begun yet: if it is lost here, the client may send it again.
    ROS2S_CO_TRY_ASSIGN(Payload payload, co_await source(request));
    const session::SessionId session = entered.session->id;
    const uint64_t digest =
        digest_of(request, file).add(file.mount.value).add(file.handle.value).value();
    ROS2S_CO_TRY_ASSIGN(
        const StoredReplies::Reply* stored,
        co_await replies_.begin(request.call(), session, entered.session->tenant, id, digest));
    StoredReplies::Reply reply;
    if (stored != nullptr) {
        reply = *stored;
    } else {
        reply = co_await apply(request, entered, file, payload.window, scratch.checksums);
        replies_.end(session, id, reply);
        if (reply.status) count(payload, reply.bytes);
    }
    payload.theirs.end();
    ROS2S_CO_TRY(reply.status);
    co_await request.reply(encode_moved(scratch.answer, {.bytes = reply.bytes}));
    co_return Result<>{};
}

Result<LinkServer::Payload> LinkServer::in_place(Result<fabric::Mapping> mapping) {
    ROS2S_TRY_ASSIGN(fabric::Mapping theirs, std::move(mapping));
    Payload payload{.theirs = std::move(theirs)};
    payload.window = fs::Window::local(payload.theirs.bytes());
    payload.window.shared = true;
    return payload;
}

Task<Result<LinkServer::Payload>> LinkServer::sink(rpc::Request& request) {
    if (placement_ == Placement::host) {
        auto payload = in_place(request.map_sink());
        if (payload || payload.error().code != Code::unsupported) co_return payload;
    }
    Payload payload;
    payload.ours = request.memory(request.sink_bytes());
    payload.window = fs::Window::local(payload.ours.bytes());
    co_return payload;
}

Task<Result<LinkServer::Payload>> LinkServer::source(rpc::Request& request) {
    Payload payload;
    if (placement_ == Placement::host) {
        auto mapped = in_place(request.map_payload());
        if (!mapped && mapped.error().code != Code::unsupported) co_return mapped;
        if (mapped) payload = std::move(*mapped);
    }
    if (!payload.in_place()) {
        payload.ours = request.memory(request.payload_bytes());
        ROS2S_CO_TRY(co_await request.receive_payload(payload.ours.bytes()));
        payload.window = fs::Window::local(payload.ours.bytes());
    }
    co_return payload;
}

Task<Result<uint32_t>> LinkServer::long_checksum(const Call& call, ConstBytes bytes) {
    uint32_t crc = crc32c({});
    ROS2S_CO_TRY(co_await in_slices(summing_, call, bytes.size(), [&](size_t at, size_t count) {
        crc = crc32c_extend(crc, bytes.subspan(at, count));
    }));
    co_return crc;
}

Task<StoredReplies::Reply> LinkServer::apply(rpc::Request& request, const MountInUse& entered,
                                             const FileBody& file, fs::Window payload,
                                             fs::PayloadChecksums& checksums) {
    fs::FileSystem& fs = entered.fs();
    // The host's own name for the update goes to the store, whose stored reply outlives this
    // process.
    const UpdateName id = request.operation();
    const UpdateName name{.client = id.client,
                          .slot = id.slot,
                          .sequence = id.sequence,
                          .owner = entered.session->owner,
                          .digest = digest_of(request, file).value()};
    // Not the connection's stop token: an update that has begun is finished, unless the tenant lost
    // its rights meanwhile.
    const Call call{.deadline = request.call().deadline,
                    .stop = entered.session->revoked.token(),
                    .tenant = request.call().tenant,
                    .trace = request.call().trace,
                    .update = &name,
                    .repeated = request.repeated(),
                    .checksums = &checksums};
    if (request.method() == static_cast<uint16_t>(Method::punch_hole)) {
        co_return StoredReplies::Reply{
            .status = co_await fs.punch_hole(call, file.handle, file.offset, file.length)};
    }
    const bool keeps_size = request.method() == static_cast<uint16_t>(Method::allocate_inside);
    if (keeps_size || request.method() == static_cast<uint16_t>(Method::allocate)) {
        if (file.length > fs::allocated_bytes_max) {
            co_return StoredReplies::Reply{.status =
                                               fail(Code::too_large, fs::allocated_bytes_max)};
        }
        // The bytes are read and written.
        using admission::Work;
        request.charge(admission::cost_ns_of(Work::read, file.length) +
                       admission::cost_ns_of(Work::write, file.length));
        co_return StoredReplies::Reply{
            .status =
                co_await fs.allocate(call, file.handle, file.offset, file.length, keeps_size)};
    }
    const Span span(payload.shared ? call.trace : nullptr, reactor_, "dpu.in_place");
    const auto written = co_await fs.pwrite(call, file.handle, payload, file.offset);
    if (!written) {
        // If the store found it: was it wrong when it arrived here?
        if (checksums.differed ||
            (written.error().code == Code::corrupt && payload.length <= block_bytes &&
             crc32c(payload.bytes()) != file.crc)) {
            metrics_.bad_checksums.add();
        }
        co_return StoredReplies::Reply{.status = fail(written.error())};
    }
    metrics_.writes.add();
    metrics_.written_bytes.add(*written);
    co_return StoredReplies::Reply{.bytes = *written};
}

Task<Result<>> LinkServer::seek(rpc::Request& request, Scratch& scratch) {
    ROS2S_CO_TRY_ASSIGN(const FileBody file, rpc::read_body<FileBody>(request.body(), file_fields));
    if (file.length > static_cast<uint64_t>(fs::SeekFor::hole)) co_return fail(Code::invalid);
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, file));
    ROS2S_CO_TRY_ASSIGN(const uint64_t found,
                        co_await entered.fs().seek(request.call(), file.handle, file.offset,
                                                   static_cast<fs::SeekFor>(file.length)));
    co_await request.reply(rpc::build(scratch.answer, moved_fields, MovedBody{.bytes = found}));
    co_return Result<>{};
}

// A mount learns the processes of its own locks only.
Task<Result<>> LinkServer::lock(rpc::Request& request, Scratch& scratch) {
    ROS2S_CO_TRY_ASSIGN(LockBody asked, rpc::read_body<LockBody>(request.body(), lock_body_fields));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered,
                        enter(request, FileBody{.mount = asked.mount, .handle = asked.handle}));
    asked.lock.mount = asked.mount.value;
    ROS2S_CO_TRY_ASSIGN(auto in_the_way, co_await entered.fs().lock(request.call(), asked.handle,
                                                                    asked.lock, asked.how));
    if (in_the_way && in_the_way->mount != asked.lock.mount) {
        in_the_way->owner = in_the_way->pid = 0;
    }
    if (in_the_way) in_the_way->mount = 0;
    co_await request.reply(rpc::build(scratch.answer, object::lock_reply_fields, in_the_way));
    co_return Result<>{};
}

Task<Result<>> LinkServer::sync(rpc::Request& request, Scratch& /*scratch*/) {
    ROS2S_CO_TRY_ASSIGN(const FileBody file, rpc::read_body<FileBody>(request.body(), file_fields));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, file));
    ROS2S_CO_TRY(co_await entered.fs().fsync(request.call(), file.handle));
    co_await request.reply({});
    co_return Result<>{};
}

// ---- read_many ------------------------------------------------------------------------------

Task<Result<>> LinkServer::read_many(rpc::Request& request, Scratch& scratch) {
    ROS2S_CO_TRY_ASSIGN(const ReadManyBody asked,
                        decode_read_many(request.body(), scratch.user, scratch.items));
    // The directories on the way cost less: files of one directory share them.
    uint64_t names = 0;
    for (const fs::ReadManyItem& item : scratch.items) {
        names += 1 + static_cast<uint64_t>(std::ranges::count(item.name, '/'));
    }
    const size_t files = scratch.items.size();
    request.charge(admission::cost_ns_of_parts(files));
    request.charge(admission::cost_ns_of_entries(names - files));
    if (names > 1) request.charge_names(names - 1);
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, asked.mount));
    ROS2S_CO_TRY_ASSIGN(const fs::Caller caller, caller_for(request, entered, scratch.user));
    Call call = request.call();
    call.caller = &caller;
    uint64_t windows = 0;
    for (const fs::ReadManyItem& item : scratch.items) {
        if (item.window.length > request.sink_bytes() - windows) co_return fail(Code::invalid);
        windows += item.window.length;
    }
    ROS2S_CO_TRY_ASSIGN(Payload payload, co_await sink(request));
    Trace* const trace = payload.in_place() ? request.call().trace : nullptr;
    const Span span(trace, reactor_, "dpu.in_place");
    uint64_t at = 0;
    for (fs::ReadManyItem& item : scratch.items) {
        const uint64_t length = item.window.length;
        item.window = payload.window.slice(at, length);
        at += length;
    }
    call.checksums = &scratch.checksums;
    scratch.checksums.items.clear();
    ROS2S_CO_TRY(co_await entered.fs().read_many(call, asked.directory, scratch.items));
    co_return co_await reply_items(request, scratch, payload);
}

// Computes checksums of the items, unless the file system knows them.
Task<Result<>> LinkServer::sum_items(const Call& call, Scratch& scratch) {
    object::Checksums& crcs = scratch.checksums.items;
    if (crcs.size() == scratch.items.size()) co_return Result<>{};
    crcs.clear();
    SliceCount slices(reactor_);
    for (const fs::ReadManyItem& item : scratch.items) {
        const ConstBytes found = item.window.bytes().first(item.bytes);
        co_await slices.add(found.size());
        ROS2S_CO_TRY_ASSIGN(const uint32_t crc, found.size() <= slice_bytes
                                                    ? crc32c(found)
                                                    : co_await long_checksum(call, found));
        crcs.push_back(crc);
    }
    co_return Result<>{};
}

Task<Result<>> LinkServer::reply_items(rpc::Request& request, Scratch& scratch, Payload& payload) {
    uint64_t bytes = 0;
    for (fs::ReadManyItem& item : scratch.items) {
        if (!item.status) item.bytes = 0;
        bytes += item.bytes;
    }
    ROS2S_CO_TRY(co_await sum_items(request.call(), scratch));
    const ConstBytes body =
        encode_read_answers(scratch.answer, scratch.items, scratch.checksums.items);
    metrics_.reads.add(scratch.items.size());
    metrics_.read_bytes.add(bytes);
    count(payload, bytes);
    if (payload.in_place()) {
        payload.theirs.end();
        co_await request.reply_placed(body, bytes);
        co_return Result<>{};
    }
    const Bytes memory = payload.window.bytes();
    if (request.fits_inline(body.size(), bytes)) {
        // Together at the front of the memory.
        size_t end = 0;
        for (const fs::ReadManyItem& item : scratch.items) {
            const Bytes found = item.window.bytes().first(item.bytes);
            std::copy(found.begin(), found.end(), memory.begin() + static_cast<ptrdiff_t>(end));
            end += found.size();
        }
        co_await request.reply(body, memory.first(end));
        co_return Result<>{};
    }
    // Consecutive items that fill their windows are sent as one.
    size_t offset = 0, begin = 0;
    for (const fs::ReadManyItem& item : scratch.items) {
        const size_t end = offset + item.bytes;
        offset += item.window.length;
        if (end == offset && &item != &scratch.items.back()) continue;
        ROS2S_CO_TRY(co_await request.place(begin, memory.subspan(begin, end - begin)));
        begin = offset;
    }
    co_await request.reply_placed(body, bytes);
    co_return Result<>{};
}

}  // namespace ros2s::hostlink
