#include "ros2s/fabric/socket/stream.h"

#include <sys/socket.h>

namespace ros2s::fabric {

void PlainStream::send_now(ConstBytes bytes) noexcept {
    (void)::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace ros2s::fabric
