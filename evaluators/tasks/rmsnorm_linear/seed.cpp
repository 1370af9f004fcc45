// y = SiLU(RMSNorm(x) * gamma @ weight^T + bias), the plain way: normalise a row, then one dot product per output.
//
// A line with "ksearch: knob" declares a constant that may be changed, its allowed values, and what turning it means.
// ksearch: knob flags = -O2 | -O3 -march=native | -O3 -march=native -fopenmp-simd -fno-trapping-math -ffinite-math-only -fno-signed-zeros ; Compile for this processor, let loops marked simd use its vector instructions, and rely on finite values
// ksearch: flags = -O2

#include <cstdint>
#include <cstring>
#include <math.h>
#include <vector>

// ksearch: knob SIMD = 0 | 1 ; Compute neighbouring outputs in the lanes of a vector register: from weights packed into panels, with a polynomial as exponential
#define SIMD 0
// ksearch: knob TILE_ROWS = 1 | 4 | 8 ; Multiply several rows with each weight that is loaded, with their sums in registers
#define TILE_ROWS 1
// ksearch: knob TILE_VECTORS = 1 | 2 | 4 ; Multiply each element of x that is loaded with several vectors of weights
#define TILE_VECTORS 1
// ksearch: knob FUSE_SILU = 0 | 1 ; Apply SiLU to a tile while it is in the cache, instead of in a pass over the output
#define FUSE_SILU 0
// ksearch: knob UNROLL = 1 | 2 | 4 ; Unroll the loop over the summed dimension, for fewer branches and more loads in flight
constexpr int UNROLL = 1;

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

static inline float silu(float x) { return x / (1.0f + (SIMD ? exp_poly(-x) : expf(-x))); }

static void normalise(const float* row, const float* gamma, float* out, int64_t dim) {
    const int64_t whole = dim / LANES * LANES;
    Lanes squares = {};
    for (int64_t k = 0; k < whole; k += LANES) squares += load(row + k) * load(row + k);
    float square = sum_of_lanes(squares);
    for (int64_t k = whole; k < dim; ++k) square += row[k] * row[k];
    const float scale = 1.0f / sqrtf(square / static_cast<float>(dim) + 1e-5f);
#pragma omp simd
    for (int64_t k = 0; k < dim; ++k) out[k] = row[k] * scale * gamma[k];
}

// The weight matrix [outs, dim]. For vectors it is copied into panels of TILE_COLS outputs, which lie side by side.
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
#pragma GCC unroll UNROLL
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

extern "C" void rmsnorm_linear(const float* x, const float* gamma, const float* weight, const float* bias, float* y,
                               int64_t tokens, int64_t dim, int64_t outs) {
    const Matrix matrix(weight, outs, dim);
    std::vector<float> rows(TILE_ROWS * dim);
    float sums[TILE_ROWS * TILE_COLS];
    for (int64_t t = 0; t < tokens; t += TILE_ROWS) {
        const int64_t height = t + TILE_ROWS <= tokens ? TILE_ROWS : tokens - t;
        for (int64_t r = 0; r < height; ++r) normalise(x + (t + r) * dim, gamma, rows.data() + r * dim, dim);
        for (int64_t o = 0; o < outs; o += TILE_COLS) {
            const int64_t width = o + TILE_COLS <= outs ? TILE_COLS : outs - o;
            multiply_tile(rows.data(), matrix, o, sums);
            for (int64_t r = 0; r < height; ++r) {
                float* out = y + (t + r) * outs + o;
#pragma omp simd
                for (int64_t c = 0; c < width; ++c) {
                    const float value = sums[r * TILE_COLS + c] + bias[o + c];
                    out[c] = FUSE_SILU ? silu(value) : value;
                }
            }
        }
    }
#if !FUSE_SILU
#pragma omp simd
    for (int64_t i = 0; i < tokens * outs; ++i) y[i] = silu(y[i]);
#endif
}
