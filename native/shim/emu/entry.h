// What translated kernels are made of: threadgroup variables, and the values that [[attributes]] read.
#pragma once
#include "native/emu/simt.h"
#include "native/shim/core/msl_core.h"

// One memory for all threads of the threadgroup that come here.
#define MSL_TG_LOCAL(TYPE, NAME, DIMS) \
	typedef TYPE NAME##_tg_t DIMS; \
	static const char NAME##_site = 0; \
	NAME##_tg_t& NAME = *(NAME##_tg_t*)simt::tg_local(&NAME##_site, sizeof(NAME##_tg_t), 16)
#define MSL_KERNEL static inline
#define MSL_CONSTANT static const

namespace metal {

#define MSL_ID(name, expression) \
	inline uint msl_id1_##name(const simt::Ids& d) { return (expression).x; } \
	inline uint2 msl_id2_##name(const simt::Ids& d) { \
		const simt::U3 v = expression; \
		return uint2(v.x, v.y); \
	} \
	inline uint3 msl_id3_##name(const simt::Ids& d) { \
		const simt::U3 v = expression; \
		return uint3(v.x, v.y, v.z); \
	}
MSL_ID(tg, d.tg)
MSL_ID(tid, d.tid)
MSL_ID(ntid, d.ntid)
MSL_ID(ntg, d.ntg)
MSL_ID(gid, (simt::U3{d.tg.x * d.ntid.x + d.tid.x, d.tg.y * d.ntid.y + d.tid.y, d.tg.z * d.ntid.z + d.tid.z}))
#undef MSL_ID

inline uint msl_id_idx(const simt::Ids& d) { return d.idx; }
inline uint msl_id_lane(const simt::Ids& d) { return d.lane; }
inline uint msl_id_sg(const simt::Ids& d) { return d.sg; }
inline uint msl_id_nsg(const simt::Ids& d) { return d.nsg; }
inline uint msl_id_wsz(const simt::Ids&) { return 32; }

}  // namespace metal
