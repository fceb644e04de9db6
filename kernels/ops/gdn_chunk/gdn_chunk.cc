// gdn_step in chunks of C = 64 rows (WY form). Per value head, with Q, K, V of the chunk, S at its start,
// G[i] = sum_{l<=i} g[l], D[i,j] = exp(G[i] - G[j]) for j <= i:
//   A = strictly_lower(diag(beta) K K^T . D);  P = lower(Q K^T . D)
//   (I + A) X = diag(beta) (V - diag(e^G) K S)        forward substitution; X = U - W S of the usual form
//   O = diag(e^G) Q S + P X;  S = e^G[last] S + K^T (diag(exp(G[last] - G)) X)
// One task takes one value head through all chunks. Matrices that are read by columns (S, K^T, X) lie in
// panels of PANEL columns, [panel][row][PANEL], inside the thread's scratch. Rows behind the last one count
// as zeros. G is summed in f64: its differences matter, and f32 would lose them behind one strong decay.
#include "kernels/shared/gdn.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

namespace {

constexpr uint32_t C = 64;
// A tile of MR rows and NV vectors of columns is held in registers.
#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr uint32_t MR = 8, NV = 2;
#else
constexpr uint32_t MR = 4, NV = 2;
#endif
constexpr uint32_t PANEL = NV * LANES;

struct chunk_scratch {
	float q[C * GDN_DIM_MAX], k[C * GDN_DIM_MAX];  // [i][dim]
	float kt[C * GDN_DIM_MAX];                     // panels of K^T: [j / PANEL][dim][PANEL]
	float s[GDN_DIM_MAX * GDN_DIM_MAX];            // panels of S^T: [v / PANEL][dim][PANEL]
	float x[C * PANEL];                            // one panel of X
	float a[C * C], p[C * C], d[C * C];            // [i][j]; a holds -A
	float beta[C], grown[C], rest[C];              // beta, e^G[i], exp(G[last] - G[i])
};
static_assert(sizeof(chunk_scratch) <= LW_THREAD_SCRATCH_BYTES, "a chunk must fit a thread's scratch");
static_assert(C % PANEL == 0 && GDN_DIM_MAX % PANEL == 0 && C % MR == 0 && 16 % MR == 0, "tiles must divide what they cover");

struct tile {
	vf c[MR][NV];

	// c[m][:] += sum_{t<n} a[m * down + t * along] * b[t][:]
	inline void add(const float* a, size_t down, size_t along, const float* b, uint32_t n) {
		vf w[MR][NV];
		for (uint32_t m = 0; m < MR; m++)
			for (uint32_t j = 0; j < NV; j++) w[m][j] = c[m][j];
		for (uint32_t t = 0; t < n; t++, a += along, b += PANEL) {
			vf bv[NV];
			for (uint32_t j = 0; j < NV; j++) bv[j] = load(b + j * LANES);
			for (uint32_t m = 0; m < MR; m++) {
				vf am = splat(a[m * down]);
				for (uint32_t j = 0; j < NV; j++) w[m][j] = fma(am, bv[j], w[m][j]);
			}
		}
		for (uint32_t m = 0; m < MR; m++)
			for (uint32_t j = 0; j < NV; j++) c[m][j] = w[m][j];
	}
	inline void clear() {
		for (uint32_t m = 0; m < MR; m++)
			for (uint32_t j = 0; j < NV; j++) c[m][j] = zero();
	}
};

// to[k][j] = from[j][k] for 4 x 4 elements.
inline void transpose4(float* to, size_t to_stride, const float* from, size_t from_stride) {
	vf4 a = load_as<vf4>(from), b = load_as<vf4>(from + from_stride), c = load_as<vf4>(from + 2 * from_stride), d = load_as<vf4>(from + 3 * from_stride);
	vf4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
	vf4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
	store_as(to, __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5));
	store_as(to + to_stride, __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7));
	store_as(to + 2 * to_stride, __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5));
	store_as(to + 3 * to_stride, __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7));
}

// `rows` rows of n elements each <-> panels of columns; both counts are multiples of 4.
inline float* panel_at(float* panels, uint32_t n, uint32_t row, uint32_t k) { return panels + (size_t(row / PANEL) * n + k) * PANEL + row % PANEL; }
inline void to_panels(float* panels, const float* rows_of, uint32_t rows, uint32_t n) {
	for (uint32_t j = 0; j < rows; j += 4)
		for (uint32_t k = 0; k < n; k += 4) transpose4(panel_at(panels, n, j, k), PANEL, rows_of + size_t(j) * n + k, n);
}
inline void from_panels(float* rows_of, float* panels, uint32_t rows, uint32_t n) {
	for (uint32_t j = 0; j < rows; j += 4)
		for (uint32_t k = 0; k < n; k += 4) transpose4(rows_of + size_t(j) * n + k, n, panel_at(panels, n, j, k), PANEL);
}

// x = exp(min(x, 0)), also of -inf; NaN stays.
inline void decay_of(float* x, uint32_t count) {
	for (uint32_t i = 0; i < count; i += LANES) store(x + i, exp(min(zero(), load(x + i))));
}

// One chunk of one value head: rows r0 .. r0+count-1, computed as `padded` rows.
struct chunk {
	const gdn_layout& a;
	chunk_scratch& w;
	uint32_t h, count, padded;
	size_t r0;

	// Q, K, K^T, beta and the decays.
	void gather() {
		const uint32_t n = a.dim, key_head = a.key_head(h);
		double sum = 0, g_sum[C];
		for (uint32_t i = 0; i < padded; i++) {
			float *q = w.q + size_t(i) * n, *k = w.k + size_t(i) * n;
			if (i < count) {
				memcpy(q, a.q(r0 + i, key_head), n * sizeof(float));
				memcpy(k, a.k(r0 + i, key_head), n * sizeof(float));
				w.beta[i] = a.beta[a.gate(r0 + i, h)];
				// e^-200 is 0 already; a larger magnitude, or -inf, would swallow the other terms.
				float g = a.g[a.gate(r0 + i, h)];
				sum += g < -200.f ? -200.f : g;
			} else {
				memset(q, 0, n * sizeof(float));
				memset(k, 0, n * sizeof(float));
				w.beta[i] = 0;
			}
			g_sum[i] = sum;
		}
		to_panels(w.kt, w.k, padded, n);
		for (uint32_t i = 0; i < C; i++) {
			w.grown[i] = i < padded ? float(g_sum[i]) : 0.f;
			w.rest[i] = i < padded ? float(sum - g_sum[i]) : 0.f;
		}
		decay_of(w.grown, C);
		decay_of(w.rest, C);
		for (uint32_t i = 0; i < padded; i++) {
			float* d = w.d + size_t(i) * C;
			for (uint32_t j = 0; j <= i; j++) d[j] = float(g_sum[i] - g_sum[j]);
			for (uint32_t j = i + 1; j < C; j++) d[j] = 0;
			decay_of(d, i + 1);
			for (uint32_t j = i + 1; j < C; j++) d[j] = 0;
		}
	}

	// -A and P, up to the panel that holds the diagonal.
	void products() {
		const uint32_t n = a.dim;
		for (uint32_t i0 = 0; i0 < padded; i0 += MR)
			for (uint32_t j0 = 0; j0 < i0 + MR; j0 += PANEL) {
				const float* kt = w.kt + size_t(j0) * n;
				tile kk, qk;
				kk.clear();
				kk.add(w.k + size_t(i0) * n, n, 1, kt, n);
				qk.clear();
				qk.add(w.q + size_t(i0) * n, n, 1, kt, n);
				for (uint32_t m = 0; m < MR; m++)
					for (uint32_t j = 0; j < NV; j++) {
						size_t at = size_t(i0 + m) * C + j0 + j * LANES;
						vf d = load(w.d + at);
						store(w.a + at, kk.c[m][j] * d * -w.beta[i0 + m]);
						store(w.p + at, qk.c[m][j] * d);
					}
			}
	}

	// X for the columns v0 .. v0+PANEL-1.
	void solve(uint32_t v0, const float* s) {
		const uint32_t n = a.dim;
		for (uint32_t i0 = 0; i0 < padded; i0 += MR) {
			tile t;
			t.clear();
			t.add(w.k + size_t(i0) * n, n, 1, s, n);
			for (uint32_t m = 0; m < MR; m++)
				for (uint32_t j = 0; j < NV; j++) {
					const uint32_t i = i0 + m, v = v0 + j * LANES;
					vf value = i < count && v < n ? load(a.v(r0 + i, h) + v) : zero();
					t.c[m][j] = w.beta[i] * (value - w.grown[i] * t.c[m][j]);
				}
			t.add(w.a + size_t(i0) * C, C, 1, w.x, i0);
			for (uint32_t m = 0; m < MR; m++)
				for (uint32_t j = 0; j < NV; j++) {
					for (uint32_t l = 0; l < m; l++) t.c[m][j] = fma(splat(w.a[size_t(i0 + m) * C + i0 + l]), t.c[l][j], t.c[m][j]);
					store(w.x + size_t(i0 + m) * PANEL + j * LANES, t.c[m][j]);
				}
		}
	}

	void read(uint32_t v0, const float* s) {
		const uint32_t n = a.dim;
		for (uint32_t i0 = 0; i0 < padded; i0 += MR) {
			tile t;
			t.clear();
			t.add(w.q + size_t(i0) * n, n, 1, s, n);
			for (uint32_t m = 0; m < MR; m++)
				for (uint32_t j = 0; j < NV; j++) t.c[m][j] = t.c[m][j] * w.grown[i0 + m];
			t.add(w.p + size_t(i0) * C, C, 1, w.x, i0 + MR);
			for (uint32_t m = 0; m < MR && i0 + m < count; m++)
				for (uint32_t j = 0; j < NV; j++)
					if (v0 + j * LANES < n) store(a.out(r0 + i0 + m, h) + v0 + j * LANES, t.c[m][j]);
		}
	}

	void update(float* s) {
		const uint32_t n = a.dim;
		for (uint32_t i = 0; i < count; i++)
			for (uint32_t j = 0; j < NV; j++) store(w.x + i * PANEL + j * LANES, load(w.x + i * PANEL + j * LANES) * w.rest[i]);
		const float kept = w.grown[count - 1];
		for (uint32_t k0 = 0; k0 < n; k0 += MR) {
			tile t;
			for (uint32_t m = 0; m < MR; m++)
				for (uint32_t j = 0; j < NV; j++) t.c[m][j] = load(s + size_t(k0 + m) * PANEL + j * LANES) * kept;
			t.add(w.k + k0, 1, n, w.x, count);
			for (uint32_t m = 0; m < MR; m++)
				for (uint32_t j = 0; j < NV; j++) store(s + size_t(k0 + m) * PANEL + j * LANES, t.c[m][j]);
		}
	}
};

}  // namespace

LW_CPU_KERNEL(gdn_chunk) {
	const gdn_layout a = gdn_of<gdn_chunk_args>(args_, slots);
	auto& w = *static_cast<chunk_scratch*>(scratch);
	const uint32_t n = a.dim;
	for (uint32_t h = begin; h < end && h < a.v_heads; h++) {
		// Columns behind the last v row stay zero.
		memset(w.s, 0, size_t(n + PANEL - 1) / PANEL * PANEL * n * sizeof(float));
		to_panels(w.s, a.state_row(h, 0), n, n);
		for (size_t r0 = 0; r0 < a.rows; r0 += C) {
			const uint32_t count = a.rows - r0 < C ? uint32_t(a.rows - r0) : C;
			chunk c{a, w, h, count, (count + MR - 1) / MR * MR, r0};
			c.gather();
			c.products();
			for (uint32_t v0 = 0; v0 < n; v0 += PANEL) {
				float* s = w.s + size_t(v0) * n;
				c.solve(v0, s);
				c.read(v0, s);
				c.update(s);
			}
		}
		from_panels(a.state_row(h, 0), w.s, n, n);
	}
}

}  // namespace LW_CPU_NAMESPACE
