// blocks.cpp: blocks of a cache in batches, by a queue whose descriptor an event loop can watch.
//
//     ros2store container create --cache --size 1GiB ros2s://HOST/pool/kv
//     ./blocks ros2s+dpu://HOST/pool/kv
#include <poll.h>

#include <iostream>
#include <ros2store/ros2store.hpp>

int main(int count, char** arguments) try {
    if (count != 2) {
        std::cerr << "usage: blocks URI\n";
        return 2;
    }
    const ros2store::FileSystem fs(arguments[1]);
    const ros2store::Queue queue = fs.make_queue(16);
    const std::string keys[] = {"prompt-0", "prompt-1", "prompt-2", "new"};
    std::vector<std::string> memory(4, std::string(256 << 10, 'k'));
    std::vector<ros2s_block> blocks;
    for (size_t i = 0; i < 4; ++i) {
        blocks.push_back({keys[i].data(), keys[i].size(), memory[i].data(), memory[i].size(), 0});
    }

    // Three are put. The thread may do other work until the descriptor is readable.
    ros2s_request put{};
    put.opcode = ROS2S_OP_PUT_BLOCKS;
    put.address = blocks.data();
    put.bytes = 3;
    queue.submit(put);
    pollfd readable{queue.descriptor(), POLLIN, 0};
    ros2s_completion done{};
    while (queue.reap(&done, 0, 1, std::chrono::nanoseconds(0)) == 0) poll(&readable, 1, -1);

    // The beginning of the prompt that is there is kept for a minute, and got.
    blocks.resize(fs.blocks(ROS2S_OP_FIND_BLOCKS, blocks));
    fs.blocks(ROS2S_OP_PIN_BLOCKS, blocks, std::chrono::minutes(1));
    const size_t got = fs.blocks(ROS2S_OP_GET_BLOCKS, blocks);
    fs.blocks(ROS2S_OP_UNPIN_BLOCKS, blocks);
    std::cout << done.result << " blocks were put, and " << got << " were got\n";
    return 0;
} catch (const ros2store::Error& error) {
    std::cerr << "blocks: " << error.sentence() << '\n';
    return 1;
}
