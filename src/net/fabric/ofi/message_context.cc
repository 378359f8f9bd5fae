#include "message_context.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "ros2s/base/check.h"

namespace ros2s::fabric::ofi {

int MessageContext::create(const OfiLibrary& ofi, const Choice& choice) {
    const Settings ours(environment_);
    free_info_ = [&ofi](fi_info* info) { ofi.fi_freeinfo(info); };
    copy_info_ = [&ofi](const fi_info* info) { return ofi.fi_dupinfo(info); };
    Info hints = make_hints(ofi);
    if (!hints) return -FI_ENOMEM;
    hints->caps =
        FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->tx_attr->size = sends_max;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->size = receives_max;
    int status = find_offer(ofi, std::move(hints), choice, offer_);
    if (status != 0) return status;
    // There a read needs memory that the peer may write.
    if (offer_->ep_attr->protocol == FI_PROTO_IWARP) return -FI_ENOSYS;
    status = make(fabric_, ofi.fi_fabric, offer_->fabric_attr);
    if (status == 0) status = make(domain_, fi_domain, fabric_.get(), offer_.get());
    if (status == 0) status = create_queues();
    return status != 0 ? status : listen();
}

int MessageContext::create_queues() {
    fi_eq_attr events_wanted{};
    events_wanted.wait_obj = FI_WAIT_FD;
    int status = make(events_, fi_eq_open, fabric_.get(), &events_wanted);
    if (status != 0) return status;
    fi_cq_attr completions_wanted{};
    completions_wanted.size = endpoints_max * (sends_max + receives_max);
    completions_wanted.format = FI_CQ_FORMAT_MSG;
    completions_wanted.wait_obj = FI_WAIT_FD;
    status = make(completions_, fi_cq_open, domain_.get(), &completions_wanted);
    if (status != 0) return status;

    signal_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    events_of_all_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    if (!signal_.open() || !events_of_all_.open() ||
        epoll_ctl(events_of_all_.get(), EPOLL_CTL_ADD, signal_.get(), &wanted) != 0) {
        return -FI_ENOMEM;
    }
    status = wait_on(events_->fid);
    return status != 0 ? status : wait_on(completions_->fid);
}

int MessageContext::wait_on(fid& queue) {
    int descriptor = -1;
    const int status = fi_control(&queue, FI_GETWAIT, &descriptor);
    if (status != 0) return status;
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    return epoll_ctl(events_of_all_.get(), EPOLL_CTL_ADD, descriptor, &wanted) == 0 ? 0
                                                                                    : -FI_ENOMEM;
}

int MessageContext::listen() {
    int status = make(listening_, fi_passive_ep, fabric_.get(), offer_.get());
    if (status == 0) status = fi_pep_bind(listening_.get(), &events_->fid, 0);
    if (status == 0) status = fi_listen(listening_.get());
    if (status != 0) return status;
    address_.resize(sizeof(sockaddr_storage));
    size_t length = address_.size();
    status = fi_getname(&listening_->fid, address_.data(), &length);
    address_.resize(std::min(length, address_.size()));
    return status;
}

bool MessageContext::remembers_memory() const {
    AlignedBuffer memory(block_bytes);
    std::array<Handle<fid_mr>, 2> registrations;
    for (Handle<fid_mr>& each : registrations) {
        if (make(each, fi_mr_reg, domain_.get(), memory.data(), memory.size(), FI_REMOTE_READ, 0, 0,
                 0) != 0) {
            return true;  // it cannot be determined
        }
    }
    return fi_mr_key(registrations[0].get()) == fi_mr_key(registrations[1].get());
}

bool MessageContext::is_of_our_kind(ConstBytes address) const noexcept {
    // libfabric reads as many bytes as our own address has.
    sockaddr theirs{};
    sockaddr ours{};
    if (address.size() != address_.size() || address.size() < sizeof theirs) return false;
    std::memcpy(&theirs, address.data(), sizeof theirs);
    std::memcpy(&ours, address_.data(), sizeof ours);
    return theirs.sa_family == ours.sa_family;
}

Handle<fid_ep> MessageContext::make_endpoint(ConstBytes address) {
    const Info info(copy_info_(offer_.get()), free_info_);
    if (!info) return nullptr;
    std::free(info->dest_addr);
    info->dest_addr = std::malloc(address.size());
    if (info->dest_addr == nullptr) return nullptr;
    std::memcpy(info->dest_addr, address.data(), address.size());
    info->dest_addrlen = address.size();
    return enable(*info);
}

Handle<fid_ep> MessageContext::enable(fi_info& info) {
    Handle<fid_ep> endpoint;
    if (make(endpoint, fi_endpoint, domain_.get(), &info) != 0) {
        if (info.handle != nullptr) reject(info);
        return nullptr;
    }
    int status = fi_ep_bind(endpoint.get(), &events_->fid, 0);
    if (status == 0) status = fi_ep_bind(endpoint.get(), &completions_->fid, FI_TRANSMIT | FI_RECV);
    if (status == 0) status = fi_enable(endpoint.get());
    if (status == 0) return endpoint;
    if (info.handle != nullptr) forget(info);
    return nullptr;
}

void MessageContext::reject(fi_info& request) noexcept {
    Handle<fid_ep> endpoint;
    (void)make(endpoint, fi_endpoint, domain_.get(), &request);
    forget(request);
}

void MessageContext::forget(const fi_info& request) noexcept {
    (void)fi_reject(listening_.get(), request.handle, nullptr, 0);
}

bool MessageContext::may_sleep() const noexcept {
    std::array<fid*, 2> objects{&completions_->fid, &events_->fid};
    return fi_trywait(fabric_.get(), objects.data(), static_cast<int>(objects.size())) == 0;
}

void MessageContext::signal() noexcept {
    const int status = eventfd_write(signal_.get(), 1);
    ROS2S_CHECK(status == 0);
}

Result<MessageContext> MessageContext::open(const Options& options, const Choice& choice,
                                            Report& report) {
    ROS2S_TRY_ASSIGN(const OfiLibrary* ofi, ofi_library(report));
    MessageContext made;
    const int status = made.create(*ofi, choice);
    if (status != 0) return cannot_open(*ofi, options, status, report);
    if (made.remembers_memory()) {
        return report.fail(
            Code::unsupported,
            "provider " + options.provider +
                ": another library of this process has used libfabric before, with settings by "
                "which memory stays open to peers after its key is revoked: start the program "
                "with FI_MR_CACHE_MONITOR=disabled in its environment");
    }
    return made;
}

}  // namespace ros2s::fabric::ofi
