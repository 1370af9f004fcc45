// Outgoing triangle multiplicative update, the plain way: one step after the other, each over all pairs.
//
// A line with "ksearch: knob" declares a constant that may be changed, its allowed values, and what turning it means.
// ksearch: knob flags = -O2 | -O3 -march=native | -O3 -march=native -fopenmp-simd -fno-trapping-math -ffinite-math-only -fno-signed-zeros ; Compile for this processor, let loops marked simd use its vector instructions, and rely on finite values
// ksearch: flags = -O2

#include <cstdint>
#include <cstring>
#include <math.h>
#include <vector>

// ksearch: knob SIMD = 0 | 1 ; Compute neighbouring channels in the lanes of a vector register: from weights packed into panels, with a polynomial as exponential
#define SIMD 0
// ksearch: knob TILE_ROWS = 1 | 4 | 8 ; Multiply several pairs with each weight that is loaded, with their sums in registers
#define TILE_ROWS 1
// ksearch: knob TILE_VECTORS = 1 | 2 | 4 ; Multiply each value that is loaded with several vectors of weights
#define TILE_VECTORS 1
// ksearch: knob TRIANGLE_TILE = 1 | 2 | 4 ; Sum a square of (i, j) pairs at once, so that each loaded edge serves several sums
#define TRIANGLE_TILE 1
// ksearch: knob BLOCK_PAIRS = pairs | 128 | 32 ; Take a few pairs through all of a stage's steps at a time, so that what lies between stays in the cache
#define BLOCK_PAIRS pairs
// ksearch: knob FUSE_GATES = 0 | 1 ; Multiply by gate and mask while both products of a tile are at hand, instead of in a pass of its own
#define FUSE_GATES 0

#if !SIMD
#define LANES 1
#elif defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#define TILE_COLS (LANES * TILE_VECTORS)

#if SIMD
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between functions of this file only
typedef float Lanes __attribute__((vector_size(4 * LANES)));
#else
typedef float Lanes;
#endif

constexpr int64_t HIDDEN = 64;

static inline Lanes load(const float* from) {
    Lanes values;
    std::memcpy(&values, from, sizeof values);
    return values;
}

static inline void store(float* to, Lanes values) { std::memcpy(to, &values, sizeof values); }

static inline float sum_of_lanes(Lanes values) {
    float parts[LANES];
    store(parts, values);
    for (int64_t half = LANES / 2; half > 0; half /= 2) {
        for (int64_t i = 0; i < half; ++i) parts[i] += parts[i + half];
    }
    return parts[0];
}

// exp(x) = 2^k * exp(r) with |r| <= ln(2) / 2; adding 1.5 * 2^23 rounds to the integer k, which then moves into the
// exponent. Outside of +-87 the result would not be a normal number, so it stops there. Relative error 1.1e-7.
static inline float exp_poly(float x) {
    x = x > -87.0f ? x : -87.0f;
    x = x < 87.0f ? x : 87.0f;
    const float shifted = x * 1.44269504f + 12582912.0f;
    const float r = x - (shifted - 12582912.0f) * 0.693147181f;
    float p = 8.3125013e-3f;
    p = p * r + 4.18903317e-2f;
    p = p * r + 1.66671154e-1f;
    p = p * r + 4.99992303e-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t power, bits;
    std::memcpy(&power, &shifted, sizeof power);
    std::memcpy(&bits, &p, sizeof bits);
    bits += power << 23;
    std::memcpy(&p, &bits, sizeof p);
    return p;
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + (SIMD ? exp_poly(-x) : expf(-x))); }

static void layer_norm(const float* row, const float* gamma, const float* beta, float* out, int64_t width) {
    const int64_t whole = width / LANES * LANES;
    Lanes totals = {};
    for (int64_t c = 0; c < whole; c += LANES) totals += load(row + c);
    float total = sum_of_lanes(totals);
    for (int64_t c = whole; c < width; ++c) total += row[c];
    const float mean = total / static_cast<float>(width);

    Lanes squares = {};
    for (int64_t c = 0; c < whole; c += LANES) squares += (load(row + c) - mean) * (load(row + c) - mean);
    float square = sum_of_lanes(squares);
    for (int64_t c = whole; c < width; ++c) square += (row[c] - mean) * (row[c] - mean);
    const float scale = 1.0f / sqrtf(square / static_cast<float>(width) + 1e-5f);

#pragma omp simd
    for (int64_t c = 0; c < width; ++c) out[c] = (row[c] - mean) * scale * gamma[c] + beta[c];
}

// A weight matrix [outs, width]. For vectors it is copied into panels of TILE_COLS outputs, which lie side by side.
struct Matrix {
    const float* values;
    int64_t outs, width;
#if SIMD
    std::vector<float> packed;
    Matrix(const float* weight, int64_t outs_, int64_t width_) : outs(outs_), width(width_) {
        packed.resize((outs + TILE_COLS - 1) / TILE_COLS * TILE_COLS * width);
        for (int64_t o = 0; o < outs; ++o) {
            float* panel = packed.data() + o / TILE_COLS * TILE_COLS * width + o % TILE_COLS;
            for (int64_t k = 0; k < width; ++k) panel[k * TILE_COLS] = weight[o * width + k];
        }
        values = packed.data();
    }
#else
    Matrix(const float* weight, int64_t outs_, int64_t width_) : values(weight), outs(outs_), width(width_) {}
#endif
};

// The weights of the TILE_COLS outputs of one tile: those of the vector-th register at position k.
struct Columns {
#if SIMD
    const float* panel;
    Columns(const Matrix& matrix, int64_t first) : panel(matrix.values + first * matrix.width) {}
    Lanes operator()(int64_t k, int64_t vector) const { return load(panel + k * TILE_COLS + vector * LANES); }
#else
    const float* columns[TILE_COLS];
    Columns(const Matrix& matrix, int64_t first) {
        for (int64_t c = 0; c < TILE_COLS; ++c) {
            const int64_t column = first + c < matrix.outs ? first + c : matrix.outs - 1;
            columns[c] = matrix.values + column * matrix.width;
        }
    }
    float operator()(int64_t k, int64_t vector) const { return columns[vector][k]; }
#endif
};

// sums[r][c] = dot product of row r of `rows` with the weights of output first + c.
static void multiply_tile(const float* rows, const Matrix& matrix, int64_t first, float* sums) {
    const Columns columns(matrix, first);
    const int64_t width = matrix.width;
    Lanes total[TILE_ROWS][TILE_VECTORS] = {};
    for (int64_t k = 0; k < width; ++k) {
#pragma GCC unroll 4
        for (int64_t v = 0; v < TILE_VECTORS; ++v) {
            const Lanes column = columns(k, v);
#pragma GCC unroll 8
            for (int64_t r = 0; r < TILE_ROWS; ++r) total[r][v] += rows[r * width + k] * column;
        }
    }
    for (int64_t r = 0; r < TILE_ROWS; ++r) {
        for (int64_t v = 0; v < TILE_VECTORS; ++v) store(sums + r * TILE_COLS + v * LANES, total[r][v]);
    }
}

// out = rows @ matrix^T. Rows are read in whole tiles: there must be room for TILE_ROWS - 1 more of them.
static void multiply(const float* rows, int64_t count, const Matrix& matrix, float* out) {
    float sums[TILE_ROWS * TILE_COLS];
    for (int64_t t = 0; t < count; t += TILE_ROWS) {
        const int64_t height = t + TILE_ROWS <= count ? TILE_ROWS : count - t;
        for (int64_t o = 0; o < matrix.outs; o += TILE_COLS) {
            const int64_t width = o + TILE_COLS <= matrix.outs ? TILE_COLS : matrix.outs - o;
            multiply_tile(rows + t * matrix.width, matrix, o, sums);
            for (int64_t r = 0; r < height; ++r) {
                for (int64_t c = 0; c < width; ++c) out[(t + r) * matrix.outs + o + c] = sums[r * TILE_COLS + c];
            }
        }
    }
}

// out = (rows @ projection^T) * mask * sigmoid(rows @ gate^T), [count, HIDDEN].
static void gated(const float* rows, int64_t count, const Matrix& projection, const Matrix& gate, const float* mask,
                  float* scratch, float* out) {
#if FUSE_GATES
    float sums[TILE_ROWS * TILE_COLS], gates[TILE_ROWS * TILE_COLS];
    (void)scratch;
    for (int64_t t = 0; t < count; t += TILE_ROWS) {
        const int64_t height = t + TILE_ROWS <= count ? TILE_ROWS : count - t;
        for (int64_t o = 0; o < HIDDEN; o += TILE_COLS) {
            multiply_tile(rows + t * projection.width, projection, o, sums);
            multiply_tile(rows + t * gate.width, gate, o, gates);
            for (int64_t r = 0; r < height; ++r) {
                float* to = out + (t + r) * HIDDEN + o;
#pragma omp simd
                for (int64_t c = 0; c < TILE_COLS; ++c) {
                    to[c] = sums[r * TILE_COLS + c] * mask[t + r] * sigmoid(gates[r * TILE_COLS + c]);
                }
            }
        }
    }
#else
    multiply(rows, count, projection, out);
    multiply(rows, count, gate, scratch);
    for (int64_t t = 0; t < count; ++t) {
#pragma omp simd
        for (int64_t h = 0; h < HIDDEN; ++h) out[t * HIDDEN + h] *= mask[t] * sigmoid(scratch[t * HIDDEN + h]);
    }
#endif
}

// out[i][j][h] = sum over k of left[i][k][h] * right[j][k][h].
static void triangle(const float* left, const float* right, float* out, int64_t n) {
    const int64_t edge = n * HIDDEN;
    for (int64_t i = 0; i < n; i += TRIANGLE_TILE) {
        for (int64_t j = 0; j < n; j += TRIANGLE_TILE) {
            const float *rows[TRIANGLE_TILE], *columns[TRIANGLE_TILE];
            for (int64_t s = 0; s < TRIANGLE_TILE; ++s) {
                rows[s] = left + (i + s < n ? i + s : n - 1) * edge;
                columns[s] = right + (j + s < n ? j + s : n - 1) * edge;
            }
            for (int64_t h = 0; h < HIDDEN; h += LANES) {
                Lanes total[TRIANGLE_TILE][TRIANGLE_TILE] = {};
                for (int64_t k = 0; k < n; ++k) {
#pragma GCC unroll 4
                    for (int64_t a = 0; a < TRIANGLE_TILE; ++a) {
#pragma GCC unroll 4
                        for (int64_t b = 0; b < TRIANGLE_TILE; ++b) {
                            total[a][b] += load(rows[a] + k * HIDDEN + h) * load(columns[b] + k * HIDDEN + h);
                        }
                    }
                }
                for (int64_t a = 0; a < TRIANGLE_TILE && i + a < n; ++a) {
                    for (int64_t b = 0; b < TRIANGLE_TILE && j + b < n; ++b) {
                        store(out + ((i + a) * n + j + b) * HIDDEN + h, total[a][b]);
                    }
                }
            }
        }
    }
}

extern "C" void trimul(const float* x, const float* mask, const float* norm_gamma, const float* norm_beta,
                       const float* left_proj, const float* right_proj, const float* left_gate,
                       const float* right_gate, const float* out_gate, const float* out_norm_gamma,
                       const float* out_norm_beta, const float* out_proj, float* y, int64_t n, int64_t dim) {
    const int64_t pairs = n * n;
    const int64_t block = BLOCK_PAIRS;
    const Matrix left_p(left_proj, HIDDEN, dim), left_g(left_gate, HIDDEN, dim);
    const Matrix right_p(right_proj, HIDDEN, dim), right_g(right_gate, HIDDEN, dim);
    const Matrix out_g(out_gate, HIDDEN, dim), out_p(out_proj, dim, HIDDEN);
    std::vector<float> normed((block + TILE_ROWS) * dim), scratch((block + TILE_ROWS) * HIDDEN);
    std::vector<float> left(pairs * HIDDEN), right(pairs * HIDDEN), gate(pairs * HIDDEN), sums(pairs * HIDDEN);

    for (int64_t first = 0; first < pairs; first += block) {
        const int64_t count = first + block <= pairs ? block : pairs - first;
        const int64_t at = first * HIDDEN;
        for (int64_t t = 0; t < count; ++t) {
            layer_norm(x + (first + t) * dim, norm_gamma, norm_beta, normed.data() + t * dim, dim);
        }
        gated(normed.data(), count, left_p, left_g, mask + first, scratch.data(), left.data() + at);
        gated(normed.data(), count, right_p, right_g, mask + first, scratch.data(), right.data() + at);
        multiply(normed.data(), count, out_g, gate.data() + at);
    }

    triangle(left.data(), right.data(), sums.data(), n);

    for (int64_t first = 0; first < pairs; first += block) {
        const int64_t count = first + block <= pairs ? block : pairs - first;
        for (int64_t t = 0; t < count; ++t) {
            const int64_t at = (first + t) * HIDDEN;
            float* row = scratch.data() + t * HIDDEN;
            layer_norm(sums.data() + at, out_norm_gamma, out_norm_beta, row, HIDDEN);
#pragma omp simd
            for (int64_t h = 0; h < HIDDEN; ++h) row[h] *= sigmoid(gate[at + h]);
        }
        multiply(scratch.data(), count, out_p, y + first * dim);
    }
}
