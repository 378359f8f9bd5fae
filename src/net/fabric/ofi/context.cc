#include "context.h"

#include <sys/socket.h>

#include <array>

namespace ros2s::fabric::ofi {
namespace {

// All sends that may be in progress at once: frames of some thirty sessions to peers that do not
// read.
constexpr size_t sends_max = 1024;
constexpr size_t receives_max = 256;

}  // namespace

int Context::create(const OfiLibrary& ofi, const Choice& choice) {
    const Settings ours(environment_);
    Info hints = make_hints(ofi);
    if (!hints) return -FI_ENOMEM;
    hints->caps = FI_MSG | FI_SEND | FI_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->tx_attr->size = sends_max;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->size = receives_max;
    Info info;
    int status = find_offer(ofi, std::move(hints), choice, info);
    if (status != 0) return status;
    status = make(fabric_, ofi.fi_fabric, info->fabric_attr);
    return status != 0 ? status : create_endpoint(*info);
}

int Context::create_endpoint(fi_info& info) {
    int status = make(domain_, fi_domain, fabric_.get(), &info);
    if (status != 0) return status;
    fi_av_attr peers_wanted{};
    peers_wanted.type = FI_AV_TABLE;
    status = make(peers_, fi_av_open, domain_.get(), &peers_wanted);
    if (status != 0) return status;
    fi_cq_attr queue_wanted{};
    queue_wanted.size = sends_max + receives_max;
    queue_wanted.format = FI_CQ_FORMAT_MSG;
    queue_wanted.wait_obj = FI_WAIT_FD;
    status = make(completions_, fi_cq_open, domain_.get(), &queue_wanted);
    if (status == 0) status = make(endpoint_, fi_endpoint, domain_.get(), &info);
    if (status != 0) return status;
    fid_ep* const endpoint = endpoint_.get();
    status = fi_ep_bind(endpoint, &peers_->fid, 0);
    if (status == 0) status = fi_ep_bind(endpoint, &completions_->fid, FI_TRANSMIT | FI_RECV);
    if (status == 0) status = fi_enable(endpoint);
    if (status == 0) status = fi_control(&completions_->fid, FI_GETWAIT, &event_);
    if (status != 0) return status;
    address_.resize(sizeof(sockaddr_storage));
    size_t length = address_.size();
    status = fi_getname(&endpoint->fid, address_.data(), &length);
    address_.resize(length);
    return status;
}

bool Context::may_sleep() const noexcept {
    std::array<fid*, 1> objects{&completions_->fid};
    return fi_trywait(fabric_.get(), objects.data(), static_cast<int>(objects.size())) == 0;
}

Result<Context> Context::open(const Options& options, const Choice& choice, Report& report) {
    ROS2S_TRY_ASSIGN(const OfiLibrary* ofi, ofi_library(report));
    Context made;
    made.peers_max_ = choice.peers_max;
    made.message_bytes_max_ = choice.message_bytes_max;
    const int status = made.create(*ofi, choice);
    if (status == 0) return made;
    return cannot_open(*ofi, options, status, report);
}

}  // namespace ros2s::fabric::ofi
