/* Object classes of the DAOS client interface (DAOS 2.6, daos_obj_class.h). A class is a redundancy
 * and a number of redundancy groups. ROS2 has one engine and keeps one copy, so that a class
 * changes nothing; its name and number are kept. */
#ifndef ROS2STORE_DAOS_OBJ_CLASS_H
#define ROS2STORE_DAOS_OBJ_CLASS_H

#include "daos_event.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MAX_OBJ_CLASS_NAME_LEN 24
#define MAX_NUM_GROUPS 65535
#define OC_REDUN_SHIFT 24

/* Classes are OC_<NAME><GROUPS>, as in OC_S1, OC_RP_2GX and OC_EC_4P2G8. */
#define ROS2S_DAOS_CLASSES(CLASS) \
    CLASS(S, OR_RP_1)             \
    CLASS(RP_2G, OR_RP_2)         \
    CLASS(RP_3G, OR_RP_3)         \
    CLASS(RP_4G, OR_RP_4)         \
    CLASS(RP_5G, OR_RP_5)         \
    CLASS(RP_6G, OR_RP_6)         \
    CLASS(EC_2P1G, OR_RS_2P1)     \
    CLASS(EC_2P2G, OR_RS_2P2)     \
    CLASS(EC_4P1G, OR_RS_4P1)     \
    CLASS(EC_4P2G, OR_RS_4P2)     \
    CLASS(EC_4P3G, OR_RS_4P3)     \
    CLASS(EC_8P1G, OR_RS_8P1)     \
    CLASS(EC_8P2G, OR_RS_8P2)     \
    CLASS(EC_8P3G, OR_RS_8P3)     \
    CLASS(EC_16P1G, OR_RS_16P1)   \
    CLASS(EC_16P2G, OR_RS_16P2)   \
    CLASS(EC_16P3G, OR_RS_16P3)
#define ROS2S_DAOS_CLASSES_OF_ONE_GROUP(CLASS) \
    CLASS(RP_12G, OR_RP_12)                    \
    CLASS(RP_16G, OR_RP_16)                    \
    CLASS(RP_24G, OR_RP_24)                    \
    CLASS(RP_32G, OR_RP_32)                    \
    CLASS(RP_48G, OR_RP_48)                    \
    CLASS(RP_64G, OR_RP_64)                    \
    CLASS(RP_128G, OR_RP_128)
#define ROS2S_DAOS_ONE_GROUP(name, redundancy) OC_##name##1 = redundancy << OC_REDUN_SHIFT | 1,
#define ROS2S_DAOS_ALL_GROUPS(name, redundancy)        \
    ROS2S_DAOS_ONE_GROUP(name, redundancy)             \
    OC_##name##2 = redundancy << OC_REDUN_SHIFT | 2,   \
    OC_##name##4 = redundancy << OC_REDUN_SHIFT | 4,   \
    OC_##name##6 = redundancy << OC_REDUN_SHIFT | 6,   \
    OC_##name##8 = redundancy << OC_REDUN_SHIFT | 8,   \
    OC_##name##12 = redundancy << OC_REDUN_SHIFT | 12, \
    OC_##name##16 = redundancy << OC_REDUN_SHIFT | 16, \
    OC_##name##32 = redundancy << OC_REDUN_SHIFT | 32, \
    OC_##name##X = redundancy << OC_REDUN_SHIFT | MAX_NUM_GROUPS,

enum daos_obj_redun {
    OC_UNKNOWN = 0,
    OR_RP_1 = 1,
    OR_RP_2 = 8,
    OR_RP_3,
    OR_RP_4,
    OR_RP_5,
    OR_RP_6,
    OR_RP_8,
    OR_RP_12,
    OR_RP_16,
    OR_RP_24,
    OR_RP_32,
    OR_RP_48,
    OR_RP_64,
    OR_RP_128,
    OR_RS_2P1 = 32,
    OR_RS_2P2,
    OR_RS_4P1,
    OR_RS_4P2,
    OR_RS_8P1,
    OR_RS_8P2,
    OR_RS_16P1,
    OR_RS_16P2,
    OR_RS_4P3,
    OR_RS_8P3,
    OR_RS_16P3,
    OC_TINY = 51,
    OC_SMALL,
    OC_LARGE,
    OC_MAX,
    OC_RP_TINY = 60,
    OC_RP_SMALL,
    OC_RP_LARGE,
    OC_RP_MAX,
    OC_RP_SF_TINY = 70,
    OC_RP_SF_SMALL,
    OC_RP_SF_LARGE,
    OC_RP_SF_MAX,
    OC_RP_XSF = 80,
    OC_EC_TINY = 100,
    OC_EC_SMALL,
    OC_EC_LARGE,
    OC_EC_MAX,

    ROS2S_DAOS_CLASSES(ROS2S_DAOS_ALL_GROUPS) ROS2S_DAOS_CLASSES_OF_ONE_GROUP(ROS2S_DAOS_ONE_GROUP)
        OC_RESERVED = 1 << 30
};

typedef uint32_t daos_oclass_id_t;
typedef uint16_t daos_oclass_hints_t;

/* OC_UNKNOWN (0) for an unknown name. */
int daos_oclass_name2id(const char* name);
int daos_oclass_id2name(daos_oclass_id_t id, char* name);

#ifdef __cplusplus
}
#endif
#endif
