// Softmax of every row, the plain way: find the largest value, sum the exponentials, divide.
//
// A line with "ksearch: knob" declares a constant that may be changed, its allowed values, and what turning it means.
// ksearch: knob flags = -O2 | -O3 -march=native | -O3 -march=native -mprefer-vector-width=512 -fopenmp-simd -fno-trapping-math -ffinite-math-only -fno-signed-zeros ; Compile for this processor, let loops marked simd use its widest vector instructions, and rely on finite inputs
// ksearch: flags = -O2

#include <cstdint>
#include <cstring>
#include <math.h>

// ksearch: knob EXP = expf | exp_poly5 | exp_poly4 ; Replace the library exponential by an inlined polynomial, around which loops can be vectorised
#define EXP expf
// ksearch: knob KEEP_EXP = 0 | 1 ; Store each exponential in the output when it is summed and scale it there later, instead of computing it twice
#define KEEP_EXP 0
// ksearch: knob PEAK_CHAINS = 1 | 16 | 32 ; Keep several running maxima, so that no comparison waits for the one before
#define PEAK_CHAINS 1
// ksearch: knob SUM_CHAINS = 1 | 16 | 32 ; Keep several running sums, so that no addition waits for the one before
#define SUM_CHAINS 1
// ksearch: knob PREFETCH = 0 | 1 | 2 ; Ask for the next row's inputs (1), and for the lines its results go to as well (2), while this row's exponentials are computed
#define PREFETCH 0

// 2^k * p, where k lies in the low bits of the float `shifted` = k + 1.5 * 2^23.
static inline float times_power_of_two(float p, float shifted) {
    uint32_t power, bits;
    std::memcpy(&power, &shifted, sizeof power);
    std::memcpy(&bits, &p, sizeof bits);
    bits += power << 23;
    std::memcpy(&p, &bits, sizeof p);
    return p;
}

// exp(x) for x <= 0: exp(x) = 2^k * exp(r) with |r| <= ln(2) / 2; adding 1.5 * 2^23 rounds to the integer k.
// Below -87 the result would not be a normal number, so it stops there. The polynomial's relative error is 1.1e-7.
static inline float exp_poly5(float x) {
    x = x > -87.0f ? x : -87.0f;
    const float shifted = x * 1.44269504f + 12582912.0f;
    const float r = x - (shifted - 12582912.0f) * 0.693147181f;
    float p = 8.3125013e-3f;
    p = p * r + 4.18903317e-2f;
    p = p * r + 1.66671154e-1f;
    p = p * r + 4.99992303e-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return times_power_of_two(p, shifted);
}

// The same with one term less: relative error 2.9e-6.
static inline float exp_poly4(float x) {
    x = x > -87.0f ? x : -87.0f;
    const float shifted = x * 1.44269504f + 12582912.0f;
    const float r = x - (shifted - 12582912.0f) * 0.693147181f;
    float p = 4.15136833e-2f;
    p = p * r + 1.67875918e-1f;
    p = p * r + 5.00030198e-1f;
    p = p * r + 9.99966773e-1f;
    p = p * r + 1.0f;
    return times_power_of_two(p, shifted);
}

static inline float larger(float a, float b) { return a > b ? a : b; }

static float row_maximum(const float* row, int64_t cols) {
#if PEAK_CHAINS == 1
    float peak = row[0];
#pragma omp simd reduction(max : peak)
    for (int64_t c = 0; c < cols; ++c) peak = larger(row[c], peak);
    return peak;
#else
    float peaks[PEAK_CHAINS];
    for (int64_t i = 0; i < PEAK_CHAINS; ++i) peaks[i] = row[0];
    int64_t c = 0;
    for (; c + PEAK_CHAINS <= cols; c += PEAK_CHAINS) {
#pragma omp simd
        for (int64_t i = 0; i < PEAK_CHAINS; ++i) peaks[i] = larger(row[c + i], peaks[i]);
    }
    for (; c < cols; ++c) peaks[0] = larger(row[c], peaks[0]);
    for (int64_t half = PEAK_CHAINS / 2; half > 0; half /= 2) {
        for (int64_t i = 0; i < half; ++i) peaks[i] = larger(peaks[i + half], peaks[i]);
    }
    return peaks[0];
#endif
}

// exp(row[c] - peak), which is stored as well when KEEP_EXP asks for it.
static inline float term(const float* row, float* out, int64_t c, float peak) {
    const float value = EXP(row[c] - peak);
#if KEEP_EXP
    out[c] = value;
#else
    (void)out;
#endif
    return value;
}

// Asks for columns c to c + 15 of the row that lies `ahead` elements further on.
static inline void prefetch(const float* row, const float* out, int64_t c, int64_t ahead) {
#if PREFETCH >= 1
    __builtin_prefetch(row + ahead + c);
#endif
#if PREFETCH >= 2
    __builtin_prefetch(out + ahead + c, 1);
#endif
    (void)row, (void)out, (void)c, (void)ahead;
}

static float row_sum(const float* row, float* out, int64_t cols, float peak, int64_t ahead) {
#if SUM_CHAINS == 1
    for (int64_t c = 0; c < cols; c += 16) prefetch(row, out, c, ahead);
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (int64_t c = 0; c < cols; ++c) total += term(row, out, c, peak);
    return total;
#else
    float totals[SUM_CHAINS] = {};
    int64_t c = 0;
    for (; c + SUM_CHAINS <= cols; c += SUM_CHAINS) {
        for (int64_t i = 0; i < SUM_CHAINS; i += 16) prefetch(row, out, c + i, ahead);
#pragma omp simd
        for (int64_t i = 0; i < SUM_CHAINS; ++i) totals[i] += term(row, out, c + i, peak);
    }
    for (; c < cols; ++c) totals[0] += term(row, out, c, peak);
    for (int64_t half = SUM_CHAINS / 2; half > 0; half /= 2) {
        for (int64_t i = 0; i < half; ++i) totals[i] += totals[i + half];
    }
    return totals[0];
#endif
}

extern "C" void softmax(const float* x, float* y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * cols;
        float* out = y + r * cols;
        const float peak = row_maximum(row, cols);
        const float total = row_sum(row, out, cols, peak, r + 1 < rows ? cols : 0);
#if KEEP_EXP
        const float scale = 1.0f / total;
#pragma omp simd
        for (int64_t c = 0; c < cols; ++c) out[c] *= scale;
#else
#pragma omp simd
        for (int64_t c = 0; c < cols; ++c) out[c] = EXP(row[c] - peak) / total;
#endif
    }
}
