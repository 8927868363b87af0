/* The sum of the products of a word of packed indices with their codes. */
KERNEL int32_t packed_products(uint32_t packed, int bits, const int16_t *codes)
{
    int32_t sum = 0;
    if (bits == 4)
        return (int32_t)(packed & 15u) * codes[0] + (int32_t)(packed >> 4 & 15u) * codes[1] +
               (int32_t)(packed >> 8 & 15u) * codes[2] + (int32_t)(packed >> 12 & 15u) * codes[3] +
               (int32_t)(packed >> 16 & 15u) * codes[4] + (int32_t)(packed >> 20 & 15u) * codes[5] +
               (int32_t)(packed >> 24 & 15u) * codes[6] + (int32_t)(packed >> 28) * codes[7];
    for (; packed != 0; packed >>= bits)
        sum += (int32_t)(packed & ((1u << bits) - 1u)) * *codes++;
    return sum;
}
