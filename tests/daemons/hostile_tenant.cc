#include "hostile_tenant.h"

#include <algorithm>
#include <chrono>

#include "raw_connection.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/fabric/providers/providers.h"
#include "ros2s/hostlink/fields.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::tests {
namespace {

const Call call;
constexpr uint64_t mib = 1 << 20;
constexpr uint64_t file_bytes = 8 * mib;  // that are written
constexpr uint64_t hole_bytes = 8 * mib;  // behind them

Task<> stop_soon(Reactor& reactor, StopSource& stop, Duration after) {
    co_await sleep_for(reactor, after);
    stop.request_stop();
}

Duration up_to(Random& random, std::chrono::microseconds most) {
    return std::chrono::microseconds(random.below(static_cast<uint64_t>(most.count())));
}

const KnownTenant& one_of(HostileTenant& self) {
    return self.others[self.random.below(self.others.size())];
}

template <class Worker>
Task<> many_at_once(HostileTenant& self, uint32_t workers, Worker worker) {
    Nursery nursery(self.reactor, workers);
    for (uint32_t i = 0; i < workers; ++i) co_await nursery.spawn(worker(self, i));
    co_await nursery.join();
}

// Opens a domain for connections other than the tenant's own.
std::unique_ptr<fabric::Domain> open_domain(HostileTenant& self) {
    Report report;
    auto domain =
        fabric::open_domain(self.reactor, self.tenant.connection->channel().provider(), {}, report,
                            {.tls = {.identity = self.certificate.identity,
                                     .server_name = self.certificate.server_name}});
    ROS2S_CHECK(domain);
    return std::move(*domain);
}

// ---- writes

Task<> read_back(HostileTenant& self, Bytes memory) {
    hostlink::LinkClient& link = *self.tenant.link;
    std::ranges::fill(memory, std::byte{0});
    const uint64_t at = self.random.below(file_bytes / mib) * mib;
    self.count(co_await link.pread(call, self.tenant.file, fs::Window::local(memory), at));
    self.plant.expect_no_others(memory, "a file");
    std::ranges::fill(memory, std::byte{0});
    const uint64_t in_hole = file_bytes + self.random.below(hole_bytes - mib);
    if (self.count(
            co_await link.pread(call, self.tenant.file, fs::Window::local(memory), in_hole))) {
        EXPECT_TRUE(
            std::ranges::all_of(memory, [](std::byte each) { return each == std::byte{0}; }))
            << "a hole has bytes: " << as_text(memory.first(64));
    }
}

Task<> write_on(HostileTenant& self, uint32_t) {
    std::vector<std::byte> content(mib), found(mib);
    self.plant.fill(content);
    while (!self.stop) {
        StopSource cancelled;
        Nursery cancelling(self.reactor, 1);
        Call some{.stop = cancelled.token()};
        const uint64_t how = self.random.below(3);
        const Duration after = up_to(self.random, std::chrono::milliseconds(50));
        if (how == 1) some.deadline = self.reactor.now() + after;
        if (how == 2) co_await cancelling.spawn(stop_soon(self.reactor, cancelled, after));
        self.count(co_await self.tenant.link->pwrite(some, self.tenant.file,
                                                     fs::Window::local(ConstBytes(content)),
                                                     self.random.below(file_bytes / mib) * mib));
        co_await cancelling.join();
        if (self.random.one_in(4)) co_await read_back(self, found);
    }
}

// ---- names

Task<> list_it_all(HostileTenant& self, fs::NodeId directory, fs::FileHandle handle) {
    hostlink::LinkClient& link = *self.tenant.link;
    for (const uint64_t cookie : {uint64_t{0}, self.random.next(), self.random.below(1000)}) {
        const auto entries =
            co_await link.readdir(call, handle, cookie, hostlink::readdir_entries_max);
        if (self.count(entries)) {
            for (const auto& each : *entries) self.plant.expect_no_others(each.name, "a listing");
        }
        const auto listed =
            co_await link.readdir_many(call, directory, handle, cookie, fs::names_together_max);
        if (self.count(listed)) {
            for (const auto& each : *listed) {
                self.plant.expect_no_others(each.entry.name, "a listing");
            }
        }
    }
}

Task<> use_largest_texts(HostileTenant& self, fs::NodeId node) {
    hostlink::LinkClient& link = *self.tenant.link;
    std::vector<std::byte> value(self.random.below(fs::attribute_value_bytes_max));
    self.plant.fill(value);
    self.count(co_await link.set_xattr(call, node, "user.large", value, fs::SetXattr::any));
    const auto found = co_await link.get_xattr(call, node, "user.large");
    if (self.count(found)) self.plant.expect_no_others(*found, "an attribute");
    for (const std::string_view absent : {"user.absent", "user."}) {
        self.count(co_await link.get_xattr(call, node, absent));
    }
    const std::string target(
        as_text(ConstBytes(value).first(std::min(value.size(), fs::link_target_bytes_max))));
    const auto link_node = co_await link.symlink(call, node, "link", target, {});
    if (self.count(link_node)) {
        const auto read = co_await link.readlink(call, link_node->node);
        if (self.count(read)) self.plant.expect_no_others(*read, "a link");
        self.count(co_await link.unlink(call, node, "link"));
    }
}

Task<> name_on(HostileTenant& self, uint32_t worker) {
    hostlink::LinkClient& link = *self.tenant.link;
    const auto directory = co_await link.mkdir(
        call, fs::root_node, fmt::format("{}-{}", self.plant.marker(), worker), 0700, {});
    EXPECT_TRUE(directory) << describe(directory.error());
    if (!directory) co_return;
    const auto opened = co_await link.open(call, directory->node, {});
    EXPECT_TRUE(opened);
    std::vector<std::string> names;
    std::string padding;
    for (int i = 0; i < 14; ++i) padding += self.plant.marker();
    for (int i = 0; i < 200; ++i) names.push_back(fmt::format("{}-{}", padding, i));
    const std::vector<std::string_view> views(names.begin(), names.end());
    while (!self.stop) {
        for (const auto& each : co_await link.create_many(call, directory->node, views, 0600, {})) {
            self.count(each);
        }
        for (const auto& each : co_await link.lookup_many(call, directory->node, views)) {
            self.count(each);
        }
        co_await list_it_all(self, directory->node, opened->handle);
        co_await use_largest_texts(self, directory->node);
        for (const auto& each : co_await link.unlink_many(call, directory->node, views)) {
            self.count(each);
        }
    }
    EXPECT_TRUE(co_await link.close(call, opened->handle));
}

// ---- tickets and sessions

// Connects to the victim's listener with a ticket for another listener, or with an invalid one.
Task<> intrude(HostileTenant& self, fabric::Domain& domain, const KnownTenant& victim,
               std::string ticket, Uuid client) {
    RawConnection raw;
    EXPECT_FALSE(
        self.count(co_await raw.greet(domain, victim.listener, client, std::move(ticket))));
    self.plant.expect_no_others(raw.refusal, "a refusal");
    co_await raw.close();
}

// Opens a session whose client connects and disappears, or never connects.
Task<> leave_a_session(HostileTenant& self, fabric::Domain& domain,
                       std::vector<session::SessionId>& left) {
    control::ControlClient& control = control_of(*self.tenant.connection);
    Report report;
    const Uuid client = Uuid::make(self.reactor.secrets());
    const auto opened =
        co_await control.open_session(call,
                                      {.client = client,
                                       .purpose = session::Purpose::link,
                                       .pool = "pool",
                                       .program = self.plant.marker(),
                                       .providers = {self.tenant.connection->channel().provider()}},
                                      report);
    self.plant.expect_no_others(report.text(), "an error of the control plane");
    if (!self.count(opened)) co_return;
    left.push_back(opened->id);
    if (self.random.one_in(2)) co_return;
    self.count(co_await control.mount(call, opened->id, self.plant.marker(), {}, report));
    RawConnection raw;
    self.count(co_await raw.greet(domain, opened->address, client,
                                  std::string(opened->ticket.ticket.view())));
    if (raw.endpoint) raw.endpoint->abandon();
    co_await raw.close();
}

// ---- numbers of others

class SearchReply final : public rpc::ReplyReader {
  public:
    explicit SearchReply(const Plant& plant) : plant_(plant) {}
    Result<> read(const rpc::Reply& reply) override {
        plant_.expect_no_others(reply.body, "a reply");
        plant_.expect_no_others(reply.payload, "the payload of a reply");
        return {};
    }

  private:
    const Plant& plant_;
};

// In its own mount, the number of a foreign handle is free or its own.
void expect_refused(HostileTenant& self, session::MountId mount, bool served) {
    EXPECT_FALSE(served && mount != self.tenant.location().mount);
}

// Over the data plane, on its own connection.
Task<> use_file_of(HostileTenant& self, hostlink::Method method, session::MountId mount,
                   fs::FileHandle handle) {
    hostlink::Buffer body;
    std::vector<std::byte> memory(64 << 10), content(4096);
    self.plant.fill(content);
    const Bytes sink[] = {memory};
    const ConstBytes payload[] = {content};
    const bool writes = method == hostlink::Method::write;
    const bool reads = method == hostlink::Method::read;
    SearchReply reader(self.plant);
    Report report;
    const rpc::CallRequest request{
        .method = static_cast<uint16_t>(method),
        .id = {.client = self.tenant.connection->client(),
               .slot = 4000,
               .sequence = self.attempts + 1},
        .body = rpc::build(body, hostlink::file_fields,
                           hostlink::FileBody{.mount = mount,
                                              .handle = handle,
                                              .length = reads ? 0 : content.size(),
                                              .crc = writes ? crc32c(payload[0]) : 0}),
        .payload = writes ? std::span<const ConstBytes>(payload) : std::span<const ConstBytes>(),
        .sink = reads ? std::span<const Bytes>(sink) : std::span<const Bytes>(),
        .reply_body_bytes_max = 64,
        .report = &report};
    expect_refused(
        self, mount,
        self.count(co_await self.tenant.connection->channel().call(call, request, reader)));
    self.plant.expect_no_others(memory, "the memory of a read");
    self.plant.expect_no_others(report.text(), "an error of the data plane");
}

Task<> list_by_handle_of(HostileTenant& self, const KnownTenant& victim) {
    for (const session::MountId mount : {victim.location.mount, self.tenant.location().mount}) {
        hostlink::Buffer body;
        SearchReply reader(self.plant);
        Report report;
        const rpc::CallRequest request{
            .method = static_cast<uint16_t>(hostlink::Method::readdir),
            .repeatable = true,
            .body = rpc::build(
                body, hostlink::readdir_fields,
                hostlink::ReaddirBody{.mount = mount,
                                      .handle = victim.handle,
                                      .cookie = self.random.next() >> self.random.below(64),
                                      .limit = hostlink::readdir_entries_max}),
            .reply_body_bytes_max = 64 << 10,
            .report = &report};
        expect_refused(
            self, mount,
            self.count(co_await self.tenant.connection->channel().call(call, request, reader)));
        self.plant.expect_no_others(report.text(), "an error of the data plane");
    }
}

Task<> use_session_of(HostileTenant& self, const KnownTenant& victim) {
    control::ControlClient& control = control_of(*self.tenant.connection);
    const session::SessionId session = victim.location.session;
    Report report;
    EXPECT_FALSE(self.count(co_await control.keep_alive(call, session, report)));
    EXPECT_FALSE(self.count(co_await control.issue_ticket(call, session, report)));
    EXPECT_FALSE(self.count(co_await control.close_session(call, session, report)));
    EXPECT_FALSE(
        self.count(co_await control.mount(call, session, self.plant.marker(), {}, report)));
    // It does not get its neighbour's container over its own session.
    EXPECT_FALSE(self.count(
        co_await control.mount(call, self.tenant.location().session, victim.file, {}, report)));
    for (const session::SessionId by : {session, self.tenant.location().session}) {
        session::FixedMountLocator locator({by, victim.location.mount});
        control::RemoteNamespace names(control, locator, self.tenant.connection->client());
        EXPECT_FALSE(self.count(co_await names.lookup(call, fs::root_node, victim.file)));
        EXPECT_FALSE(self.count(co_await names.unlink(call, fs::root_node, victim.file)));
        EXPECT_FALSE(self.count(co_await names.close(call, victim.handle)));
    }
    // The reply may name the neighbour's container, because the request did.
    const std::string own_words = report.text();
    for (const KnownTenant& other : self.others) {
        if (other.file != victim.file) EXPECT_FALSE(own_words.contains(other.file)) << own_words;
    }
}

// ---- raw frames

// What came, searched.
void hear(HostileTenant& self, fabric::Endpoint& endpoint) {
    for (;;) {
        fabric::Message message;
        if (!endpoint.try_receive(message)) return;
        self.plant.expect_no_others(message.bytes(), "a message");
    }
}

rpc::FrameHeader request_of(HostileTenant& self, const RawConnection& raw, uint64_t number,
                            hostlink::Method method) {
    rpc::FrameHeader header;
    header.kind = rpc::Kind::request;
    header.method = static_cast<uint16_t>(method);
    header.set({.client = self.tenant.connection->client(),
                .slot = static_cast<uint32_t>(3000 + number),
                .sequence = self.attempts + 1});
    header.session = raw.session;
    header.request = number << rpc::slot_bits | number;
    return header;
}

hostlink::FileBody own_file(HostileTenant& self) {
    return {.mount = self.tenant.location().mount,
            .handle = self.tenant.at_server,
            .offset = self.random.below(file_bytes / mib) * mib};
}

// Reads and writes 1 MiB, and cancels some requests. False: the connection is lost.
Task<bool> ask_for_much(HostileTenant& self, RawConnection& raw, const fabric::RemoteKey& key,
                        ConstBytes payload) {
    const uint32_t crc = crc32c(payload);
    rpc::WindowDescriptor window{.length = payload.size()};
    std::ranges::copy(object_bytes(key), window.key.begin());
    std::vector<std::byte> memory(8192);
    const uint64_t requests = 1 + self.random.below(16);
    for (uint64_t number = 1; number <= requests; ++number) {
        const bool writes = self.random.one_in(2);
        hostlink::FileBody file = own_file(self);
        hostlink::Buffer body;
        rpc::FrameHeader header = request_of(
            self, raw, number, writes ? hostlink::Method::write : hostlink::Method::read);
        if (writes) {
            file.crc = self.random.one_in(4) ? crc + 1 : crc;
            header.set(rpc::Flag::in_source);
            header.payload_bytes = payload.size();
        } else {
            header.sink_bytes = payload.size();
        }
        const std::span<const rpc::WindowDescriptor> windows(&window, 1), none;
        const ConstBytes frame =
            rpc::encode_frame(header, writes ? windows : none, writes ? none : windows,
                              rpc::build(body, hostlink::file_fields, file), memory);
        if (!self.count(co_await raw.endpoint->send(frame))) co_return false;
        if (!self.random.one_in(3)) continue;
        rpc::FrameHeader cancel;
        cancel.kind = rpc::Kind::cancel;
        cancel.session = raw.session;
        cancel.request = header.request;
        if (!co_await raw.endpoint->send(rpc::encode_frame(cancel, {}, {}, {}, memory))) {
            co_return false;
        }
    }
    co_return true;
}

Task<> cut_one(HostileTenant& self, fabric::Domain& domain) {
    RawConnection raw;
    if (!self.count(co_await raw.open(domain, *self.tenant.connection))) co_return;
    const auto memory = raw.endpoint->allocate(mib);
    if (memory) {
        self.plant.expect_no_others(*memory, "new shared memory");
        self.plant.fill(*memory);
        {
            auto region = raw.endpoint->grant(*memory, fabric::Rights::read_write);
            EXPECT_TRUE(region);
            co_await ask_for_much(self, raw, region->key(), *memory);
            co_await sleep_for(self.reactor, up_to(self.random, std::chrono::milliseconds(3)));
            hear(self, *raw.endpoint);
            const uint64_t how = self.random.below(3);
            if (how == 0) co_await region->revoke();
            if (how == 1) raw.endpoint->abandon();
            self.plant.expect_no_others(*memory, "the memory of cancelled reads");
            co_await raw.endpoint->close();
        }
        raw.endpoint->free(*memory);
    }
    co_await raw.close();
}

Task<> cut_on(HostileTenant& self, uint32_t) {
    const auto domain = open_domain(self);
    while (!self.stop) co_await cut_one(self, *domain);
    co_await domain->close();
}

// Changes one field of a valid request to a random number, or some of its bytes.
ConstBytes spoiled(HostileTenant& self, rpc::FrameHeader header, Bytes memory) {
    Random& random = self.random;
    const uint64_t number = random.next() >> random.below(64);
    switch (random.below(9)) {
        case 0: header.method = static_cast<uint16_t>(random.below(40)); break;
        case 1: header.session = static_cast<uint32_t>(number); break;
        case 2: header.request = number; break;
        case 3: header.sink_bytes = number; break;
        case 4: header.payload_bytes = number; break;
        case 5: header.flags = static_cast<uint8_t>(number); break;
        case 6: header.kind = static_cast<rpc::Kind>(random.below(8)); break;
        case 7: header.remaining_ns = number; break;
        default: break;
    }
    hostlink::Buffer body;
    hostlink::FileBody file = own_file(self);
    if (random.one_in(4)) file.offset = number;
    if (random.one_in(4)) file.length = number;
    std::vector<std::byte> bytes;
    std::ranges::copy(rpc::build(body, hostlink::file_fields, file), std::back_inserter(bytes));
    if (random.one_in(4)) bytes.resize(random.below(200), std::byte{0x5a});
    std::vector<rpc::WindowDescriptor> windows(random.below(3));
    for (auto& window : windows) {
        for (std::byte& byte : window.key) byte = static_cast<std::byte>(random.next());
        window.length = header.sink_bytes;
    }
    const ConstBytes frame = rpc::encode_frame(header, {}, windows, bytes, memory);
    if (random.one_in(8)) {
        for (int i = 0; i < 3; ++i) memory[random.below(frame.size())] ^= std::byte{0x11};
    }
    return frame;
}

Task<> garbage_once(HostileTenant& self, fabric::Domain& domain) {
    RawConnection raw;
    if (!self.count(co_await raw.open(domain, *self.tenant.connection))) co_return;
    std::vector<std::byte> memory(8192);
    for (uint64_t number = 1; number < 30 && raw.endpoint->alive(); ++number) {
        rpc::FrameHeader header = request_of(self, raw, number, hostlink::Method::read);
        header.sink_bytes = 4096;
        if (!self.count(co_await raw.endpoint->send(spoiled(self, header, memory)))) break;
        hear(self, *raw.endpoint);
    }
    co_await sleep_for(self.reactor, std::chrono::milliseconds(2));
    hear(self, *raw.endpoint);
    co_await raw.close();
}

Task<> garbage_on(HostileTenant& self, uint32_t) {
    const auto domain = open_domain(self);
    while (!self.stop) co_await garbage_once(self, *domain);
    co_await domain->close();
}

}  // namespace

KnownTenant known(const DpuTenant& tenant, const std::string& file) {
    return {.location = tenant.location(),
            .handle = tenant.at_server,
            .file = file,
            .listener = tenant.connection->channel().address(),
            .client = tenant.connection->client()};
}

Task<> HostileTenant::open(connection::Options options, std::string container) {
    certificate = options.server;
    co_await tenant.open(reactor, std::move(options), std::move(container), plant.marker(), 1);
    if (!tenant.link) co_return;
    std::vector<std::byte> content(file_bytes);
    plant.fill(content);
    EXPECT_TRUE(
        co_await tenant.link->pwrite(call, tenant.file, fs::Window::local(ConstBytes(content)), 0));
    const auto found = co_await tenant.link->lookup(call, fs::root_node, plant.marker());
    EXPECT_TRUE(found);
    EXPECT_TRUE(
        co_await tenant.link->set_attributes(call, found->node, {.size = file_bytes + hole_bytes}));
}

Task<> flood_with_writes(HostileTenant& self) { return many_at_once(self, 32, write_on); }
Task<> flood_with_names(HostileTenant& self) { return many_at_once(self, 4, name_on); }
Task<> cut_connections(HostileTenant& self) { return many_at_once(self, 4, cut_on); }
Task<> send_garbage(HostileTenant& self) { return many_at_once(self, 4, garbage_on); }

Task<> spend_tickets(HostileTenant& self) {
    const auto domain = open_domain(self);
    control::ControlClient& control = control_of(*self.tenant.connection);
    constexpr size_t left_max = 200;  // of the 256 that one may have
    std::vector<session::SessionId> left;
    Report report;
    while (!self.stop) {
        const KnownTenant& victim = one_of(self);
        std::string forged(session::ticket_bytes, '\0');
        for (char& each : forged) each = static_cast<char>(self.random.next());
        co_await intrude(self, *domain, victim, forged, victim.client);
        const auto own =
            co_await control.issue_ticket(call, self.tenant.location().session, report);
        if (self.count(own)) {
            co_await intrude(self, *domain, victim, std::string(own->ticket.view()),
                             self.tenant.connection->client());
        }
        co_await leave_a_session(self, *domain, left);
        if (left.size() < left_max) continue;
        self.count(co_await control.close_session(call, left.front(), report));
        left.erase(left.begin());
    }
    if (!self.closes_sessions) left.clear();
    for (const session::SessionId each : left) {
        self.count(co_await control.close_session(call, each, report));
    }
    co_await domain->close();
}

Task<> use_others_numbers(HostileTenant& self) {
    using hostlink::Method;
    while (!self.stop) {
        const KnownTenant& victim = one_of(self);
        co_await use_session_of(self, victim);
        for (const Method method :
             {Method::read, Method::write, Method::punch_hole, Method::allocate}) {
            co_await use_file_of(self, method, victim.location.mount, victim.handle);
            co_await use_file_of(self, method, self.tenant.location().mount, victim.handle);
            co_await use_file_of(self, method, victim.location.mount, self.tenant.at_server);
        }
        co_await list_by_handle_of(self, victim);
    }
}

}  // namespace ros2s::tests
