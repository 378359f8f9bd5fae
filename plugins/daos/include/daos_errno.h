/* Error numbers of the DAOS client interface, from DAOS 2.6's public daos_errno.h. Functions of
 * libdaos return them negated; those of libdfs return a positive errno. */
#ifndef ROS2STORE_DAOS_ERRNO_H
#define ROS2STORE_DAOS_ERRNO_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, description). Numbers are consecutive, from 1001. */
#define ROS2S_DAOS_ERRORS_1000(X)                                      \
    X(DER_NO_PERM, "operation not permitted")                          \
    X(DER_NO_HDL, "invalid handle")                                    \
    X(DER_INVAL, "invalid parameters")                                 \
    X(DER_EXIST, "it exists already")                                  \
    X(DER_NONEXIST, "it does not exist")                               \
    X(DER_UNREACH, "the node cannot be reached")                       \
    X(DER_NOSPACE, "no space on the storage target")                   \
    X(DER_ALREADY, "the operation was done already")                   \
    X(DER_NOMEM, "out of memory")                                      \
    X(DER_NOSYS, "not implemented")                                    \
    X(DER_TIMEDOUT, "timed out")                                       \
    X(DER_BUSY, "in use")                                              \
    X(DER_AGAIN, "try again")                                          \
    X(DER_PROTO, "incompatible protocol")                              \
    X(DER_UNINIT, "not initialized")                                   \
    X(DER_TRUNC, "the buffer is too short")                            \
    X(DER_OVERFLOW, "the data is too long for its type or the buffer") \
    X(DER_CANCELED, "the operation was cancelled")                     \
    X(DER_OOG, "not a member of the group")                            \
    X(DER_HG, "error of the transport")                                \
    X(DER_UNREG, "the request or its version is not registered")       \
    X(DER_ADDRSTR_GEN, "no address string could be made")              \
    X(DER_PMIX, "error of PMIx")                                       \
    X(DER_IVCB_FORWARD, "the value is not here and must be forwarded") \
    X(DER_MISC, "miscellaneous error")                                 \
    X(DER_BADPATH, "bad path")                                         \
    X(DER_NOTDIR, "not a directory")                                   \
    X(DER_CORPC_INCOMPLETE, "the collective request failed")           \
    X(DER_NO_RAS_RANK, "no rank is subscribed to RAS")                 \
    X(DER_NOTATTACH, "the service group is not attached")              \
    X(DER_MISMATCH, "versions do not match")                           \
    X(DER_EXCLUDED, "the rank was excluded")                           \
    X(DER_NOREPLY, "the handler did not reply")                        \
    X(DER_DOS, "denial of service")                                    \
    X(DER_BAD_TARGET, "wrong target of the request")                   \
    X(DER_GRPVER, "group versions do not match")                       \
    X(DER_HLC_SYNC, "the clocks do not agree")                         \
    X(DER_NO_SHMEM, "not enough shared memory")                        \
    X(DER_ADD_METRIC_FAILED, "the metric could not be added")          \
    X(DER_DURATION_MISMATCH, "a duration's end has no start")          \
    X(DER_OP_NOT_PERMITTED, "not possible for this type of metric")    \
    X(DER_EXCEEDS_PATH_LEN, "the path is too long")                    \
    X(DER_METRIC_NOT_FOUND, "there is no such metric")                 \
    X(DER_SHMEM_PERMS, "no permission for the shared memory")          \
    X(DER_HG_FATAL, "fatal error of the transport")                    \
    X(DER_QUOTA_LIMIT, "the quota is reached")
/* From 2001. */
#define ROS2S_DAOS_ERRORS_2000(X)                                       \
    X(DER_IO, "I/O error")                                              \
    X(DER_FREE_MEM, "memory could not be freed")                        \
    X(DER_ENOENT, "the entry was not found")                            \
    X(DER_NOTYPE, "unknown object type")                                \
    X(DER_NOSCHEMA, "unknown object schema")                            \
    X(DER_NOLOCAL, "the object is not local")                           \
    X(DER_STALE, "the version of the pool map is stale")                \
    X(DER_NOTLEADER, "not the leader of the service")                   \
    X(DER_TGT_CREATE, "the target could not be created")                \
    X(DER_EP_RO, "the epoch is read-only")                              \
    X(DER_EP_OLD, "the epoch is too old")                               \
    X(DER_KEY2BIG, "the key is too large")                              \
    X(DER_REC2BIG, "the record is too large")                           \
    X(DER_IO_INVAL, "buffers do not match the extents")                 \
    X(DER_EQ_BUSY, "the event queue is in use")                         \
    X(DER_DOMAIN, "domains do not match")                               \
    X(DER_SHUTDOWN, "the service should shut down")                     \
    X(DER_INPROGRESS, "the operation is in progress")                   \
    X(DER_NOTAPPLICABLE, "not applicable")                              \
    X(DER_NOTREPLICA, "not a replica of the service")                   \
    X(DER_CSUM, "the checksum does not match")                          \
    X(DER_DF_INVAL, "unsupported durable format")                       \
    X(DER_DF_INCOMPT, "incompatible version of the durable format")     \
    X(DER_REC_SIZE, "wrong size of a record")                           \
    X(DER_TX_RESTART, "the transaction should restart")                 \
    X(DER_DATA_LOSS, "data is lost")                                    \
    X(DER_OP_CANCELED, "the operation was cancelled")                   \
    X(DER_TX_BUSY, "the transaction is not committed")                  \
    X(DER_AGENT_INCOMPAT, "the agent is incompatible")                  \
    X(DER_NEED_TX, "a distributed transaction is needed")               \
    X(DER_RF, "more failures than the redundancy allows")               \
    X(DER_FETCH_AGAIN, "fetch again")                                   \
    X(DER_TX_UNCERTAIN, "the state of the transaction is uncertain")    \
    X(DER_AGENT_COMM, "the agent does not answer")                      \
    X(DER_ID_MISMATCH, "ids do not match")                              \
    X(DER_TGT_RETRY, "retry with another target")                       \
    X(DER_NOTSUPPORTED, "not supported")                                \
    X(DER_CONTROL_INCOMPAT, "components of the control plane disagree") \
    X(DER_NO_SERVICE, "no service is available")                        \
    X(DER_TX_ID_REUSED, "the transaction's id may be reused")           \
    X(DER_UPDATE_AGAIN, "update again")                                 \
    X(DER_NVME_IO, "NVMe I/O error")                                    \
    X(DER_NO_CERT, "a certificate cannot be read")                      \
    X(DER_BAD_CERT, "invalid certificate")                              \
    X(DER_VOS_PARTIAL_UPDATE, "partial overwrite at one epoch")         \
    X(DER_CHKPT_BUSY, "the page is read-only for a checkpoint")         \
    X(DER_DIV_BY_ZERO, "division by zero")                              \
    X(DER_OVERLOAD_RETRY, "the service is overloaded, retry later")     \
    X(DER_NOT_RESUME, "the former check cannot be resumed")

#define ROS2S_DAOS_ERROR_NUMBER(name, description) name,
enum daos_errno {
    DER_SUCCESS = 0,
    DER_ERR_GURT_BASE = 1000,
    ROS2S_DAOS_ERRORS_1000(ROS2S_DAOS_ERROR_NUMBER) DER_ERR_DAOS_BASE = 2000,
    ROS2S_DAOS_ERRORS_2000(ROS2S_DAOS_ERROR_NUMBER) DER_UNKNOWN = 501000
};
#undef ROS2S_DAOS_ERROR_NUMBER

/* "DER_NONEXIST" for -DER_NONEXIST. */
const char* d_errstr(int number);
const char* d_errdesc(int number);

#ifdef __cplusplus
}
#endif
#endif
