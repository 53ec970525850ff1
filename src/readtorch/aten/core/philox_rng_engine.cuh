// Tangled from chapters/a3_kernels/6_dropout.py — edit there, or here and run `readtorch sync`.
struct Philox {
    unsigned number[4];
};

__device__ __forceinline__ Philox philox(unsigned long long seed, unsigned long long subsequence, unsigned long long offset) {
    unsigned a = unsigned(offset), b = unsigned(offset >> 32), c = unsigned(subsequence), d = unsigned(subsequence >> 32);
    unsigned low = unsigned(seed), high = unsigned(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned one = a * 0xD2511F53u, two = c * 0xCD9E8D57u;
        unsigned first = __umulhi(c, 0xCD9E8D57u) ^ b ^ low, third = __umulhi(a, 0xD2511F53u) ^ d ^ high;
        a = first, b = two, c = third, d = one;
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return {{a, b, c, d}};
}

// In (0, 1].
__device__ __forceinline__ float uniform(unsigned bits) { return bits * 2.3283064365386963e-10f + 1.1641532182693481e-10f; }
