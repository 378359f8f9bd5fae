// ServicePaths: the files of the daemons that `ros2store up DIR` starts. A client finds them by
// `?dir=DIR` alone.
//
//     DIR/certs/storage/   the storage network's authority: engine (server), DPU (dpu) and the
//                          user of DIR, who administers the engine and may use it (client)
//     DIR/certs/dpu/       the DPU's certificate of that authority, by the names that it looks for:
//                          links
//     DIR/certs/hosts/     the hosts' authority: DPU (server), hosts (client). It differs from the
//                          storage network's, which therefore refuses hosts
//     DIR/engine.yaml      settings of ros2store-engine; of ros2store-dpu: DIR/dpu.yaml
//     DIR/run/             sockets, logs, and files that name the running processes (mode 0700)
//
// A plain value; any thread.
#pragma once
#include <string>

namespace ros2s::api {

struct ServicePaths {
    explicit ServicePaths(const std::string& directory)
        : storage_certs(directory + "/certs/storage"),
          dpu_certs(directory + "/certs/dpu"),
          host_certs(directory + "/certs/hosts"),
          engine_settings(directory + "/engine.yaml"),
          dpu_settings(directory + "/dpu.yaml"),
          run(directory + "/run"),
          engine_control(run + "/engine.control"),
          engine_data(run + "/engine.data"),
          engine_log(run + "/engine.log"),
          engine_metrics(run + "/engine.metrics"),
          engine_pid(run + "/engine.pid"),
          dpu_control(run + "/dpu.control"),
          dpu_data(run + "/dpu.data"),
          dpu_log(run + "/dpu.log"),
          dpu_metrics(run + "/dpu.metrics"),
          dpu_pid(run + "/dpu.pid") {}

    std::string storage_certs, dpu_certs, host_certs;
    std::string engine_settings, dpu_settings;
    std::string run;
    // Unix sockets of the control plane (gRPC), and of the data plane over shm; the log; the
    // password of the metrics, unless the settings name another file; and the file that names the
    // running daemon, which has it locked.
    std::string engine_control, engine_data, engine_log, engine_metrics, engine_pid;
    std::string dpu_control, dpu_data, dpu_log, dpu_metrics, dpu_pid;
};

}  // namespace ros2s::api
