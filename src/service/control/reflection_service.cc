#include "reflection_service.h"

#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <mutex>

#include "tls.h"

namespace ros2s::control {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

// Longer requests are not repeated in the reply. No name here is so long.
constexpr size_t echo_bytes_max = 1024;

}  // namespace

// The questions of one client, one after the other. While it waits for one, it counts as a request
// being received, and it does until the answer is written: a client takes no more than one at a
// time (gRPC keeps it until it is taken). A client that sends no request for long, or does not take
// its answer, is disconnected.
class ReflectionService::Stream final : public Arriving, public CallReactor {
  public:
    Stream(ServerCalls& gate, grpc::CallbackServerContext& context,
           const ReflectionService& service)
        : gate_(gate),
          context_(context),
          subject_(subject_of(*context.auth_context())),
          service_(service) {}
    CallReactor* begin() {
        self_ = shared_from_this();
        read();
        return this;
    }

  private:
    void read() {
        // Nothing of the last request is kept: the stream may no longer count as one.
        Request().Swap(&request_);
        Reply().Swap(&reply_);
        writing_ = false;
        if (subject_.empty() || !gate_.arrivals.begin(*this, subject_)) {
            return end({grpc::StatusCode::RESOURCE_EXHAUSTED,
                        "too many requests are being received; try again later"});
        }
        StartRead(&request_);
    }
    void OnReadDone(bool whole) override {
        if (!whole) {
            if (gate_.arrivals.end(*this)) end(grpc::Status::OK);
            return;
        }
        reply_ = service_.answer(request_);
        // gRPC takes no answer after the end, which may come at any time.
        const std::lock_guard lock(mutex_);
        if (ended_) return;
        writing_ = true;
        StartWrite(&reply_);
    }
    void OnWriteDone(bool written) override {
        if (!gate_.arrivals.end(*this)) return;
        if (!written) return end(grpc::Status::OK);
        read();
    }
    void too_late() override {
        std::unique_lock lock(mutex_);
        ended_ = true;
        lock.unlock();
        // The status would wait until the client has taken the answer.
        if (writing_) context_.TryCancel();
        end({grpc::StatusCode::DEADLINE_EXCEEDED, "no request came for some time"});
    }
    void end(const grpc::Status& status) {
        gate_.answers.begin(context_);
        Finish(status);
    }
    void OnDone() override {
        gate_.answers.end(context_);
        self_.reset();
    }

    ServerCalls& gate_;
    grpc::CallbackServerContext& context_;
    const std::string subject_;
    const ReflectionService& service_;
    Request request_;
    Reply reply_;
    std::mutex mutex_;      // of the start of a write and too_late(), with the two flags
    bool ended_ = false;    // by too_late()
    bool writing_ = false;  // read() changes it while there is no too_late()
    std::shared_ptr<Arriving> self_;
};

ReflectionService::ReflectionService(ServerCalls& gate, std::vector<std::string> services)
    : OfferedService(gate), services_(std::move(services)) {
    offer(method_of(Request(), Reply()), [this, &gate](grpc::CallbackServerContext* context) {
        return std::make_shared<Stream>(gate, *context, *this)->begin();
    });
}

ReflectionService::Reply ReflectionService::answer(const Request& request) const {
    Reply reply;
    if (request.ByteSizeLong() <= echo_bytes_max) {
        reply.set_valid_host(request.host());
        *reply.mutable_original_request() = request;
    }
    const DescriptorPool& pool = *DescriptorPool::generated_pool();
    const FileDescriptor* file = nullptr;
    switch (request.message_request_case()) {
        case Request::kListServices:
            for (const std::string& service : services_) {
                reply.mutable_list_services_response()->add_service()->set_name(service);
            }
            return reply;
        case Request::kFileByFilename:
            file = pool.FindFileByName(request.file_by_filename());
            break;
        case Request::kFileContainingSymbol:
            file = pool.FindFileContainingSymbol(request.file_containing_symbol());
            break;
        case Request::MESSAGE_REQUEST_NOT_SET: break;
    }
    if (file == nullptr) {
        reply.mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
        reply.mutable_error_response()->set_error_message("nothing has that name");
        return reply;
    }
    // Each file comes with the files that it imports, for example status.proto.
    std::vector<const FileDescriptor*> wanted{file};
    for (size_t i = 0; i < wanted.size(); ++i) {
        google::protobuf::FileDescriptorProto proto;
        wanted[i]->CopyTo(&proto);
        reply.mutable_file_descriptor_response()->add_file_descriptor_proto(
            proto.SerializeAsString());
        for (int each = 0; each < wanted[i]->dependency_count(); ++each) {
            const FileDescriptor* const used = wanted[i]->dependency(each);
            if (std::ranges::find(wanted, used) == wanted.end()) wanted.push_back(used);
        }
    }
    return reply;
}

}  // namespace ros2s::control
