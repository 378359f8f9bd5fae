/* queue_bench.c: the speed of the asynchronous queue alone: random reads of 4 KiB of an existing
 * file, or requests that do nothing.
 *
 *     queue_bench URI PATH DEPTH SECONDS [nop]
 *
 * Prints requests per second. For raw numbers beside it run fio's io_uring engine on a fully
 * written file of the same file system: direct=1, fixedbufs=1, the same depth.
 */
#include <fcntl.h>
#include <ros2store/ros2store.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 4096, DEPTH_MAX = 1024 };

static void fail(const char* what) {
    fprintf(stderr, "queue_bench: %s: %s\n", what, ros2s_last_error());
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t random_state = 88172645463325252u;
static uint64_t next_random(void) { /* xorshift64 */
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Returns requests per second. */
static double run(ros2s_queue* queue, ros2s_request* requests, unsigned depth, uint64_t blocks,
                  double seconds) {
    ros2s_completion completions[DEPTH_MAX];
    ros2s_request again[DEPTH_MAX];
    const double start = now();
    double end = start;
    uint64_t done = 0;
    unsigned under_way = depth;
    for (unsigned i = 0; i < depth; ++i) requests[i].offset = next_random() % blocks * BLOCK;
    if (ros2s_queue_submit(queue, requests, depth) != (int)depth) fail("submit");
    while (under_way > 0) {
        const int got = ros2s_queue_reap(queue, completions, 1, depth, -1);
        if (got < 0) fail("reap");
        done += (unsigned)got;
        under_way -= (unsigned)got;
        end = now();
        if (end - start >= seconds) continue;
        for (int i = 0; i < got; ++i) {
            if (completions[i].result < 0) {
                fprintf(stderr, "queue_bench: a request failed: errno %d\n",
                        (int)-completions[i].result);
                exit(1);
            }
            again[i] = requests[completions[i].user_data];
            again[i].offset = next_random() % blocks * BLOCK;
        }
        if (ros2s_queue_submit(queue, again, (unsigned)got) != got) fail("submit");
        under_way += (unsigned)got;
    }
    return (double)done / (end - start);
}

int main(int count, char** arguments) {
    if (count < 5) {
        fprintf(stderr, "usage: queue_bench URI PATH DEPTH SECONDS [nop]\n");
        return 2;
    }
    const unsigned depth = (unsigned)atoi(arguments[3]);
    const int nop = count > 5 && strcmp(arguments[5], "nop") == 0;
    ros2s_fs* fs;
    ros2s_file* file;
    ros2s_queue* queue;
    ros2s_buffer* buffer;
    struct stat st;
    if (depth < 1 || depth > DEPTH_MAX) {
        fprintf(stderr, "queue_bench: the depth is not 1 to %d\n", DEPTH_MAX);
        return 2;
    }
    if (ros2s_open(arguments[1], NULL, &fs, NULL, 0) < 0) fail("open");
    if (ros2s_file_open(fs, arguments[2], O_RDONLY, 0, &file) < 0) fail("open");
    if (ros2s_fstat(file, &st) < 0 || st.st_size < BLOCK) fail("stat");
    char* memory = aligned_alloc(BLOCK, (size_t)depth * BLOCK);
    const ros2s_memory described = {.struct_bytes = sizeof described,
                                    .kind = ROS2S_MEMORY_HOST,
                                    .address = memory,
                                    .bytes = (uint64_t)depth * BLOCK};
    if (ros2s_buffer_register(fs, &described, &buffer) < 0) fail("register");
    if (ros2s_queue_create(fs, depth, &queue) < 0) fail("queue");
    ros2s_request requests[DEPTH_MAX];
    memset(requests, 0, sizeof requests);
    for (unsigned i = 0; i < depth; ++i) {
        requests[i].opcode = nop ? ROS2S_OP_NOP : ROS2S_OP_READ;
        requests[i].file = file;
        requests[i].address = memory + (size_t)i * BLOCK;
        requests[i].bytes = BLOCK;
        requests[i].user_data = i;
        requests[i].buffer = buffer;
    }
    run(queue, requests, depth, (uint64_t)st.st_size / BLOCK, 0.2); /* warms caches */
    printf("%.0f requests/s\n",
           run(queue, requests, depth, (uint64_t)st.st_size / BLOCK, atof(arguments[4])));
    if (ros2s_queue_destroy(queue) < 0 || ros2s_buffer_unregister(buffer) < 0 ||
        ros2s_file_close(file) < 0 || ros2s_close(fs) < 0) {
        fail("close");
    }
    free(memory);
    return 0;
}
