/* The ones of a word: by an instruction, unless it is for single words and others are for vectors of them. */
KERNEL int32_t popcount(uint32_t word)
{
#if defined(__AVX512VPOPCNTDQ__) || defined(__aarch64__) || (defined(__POPCNT__) && !defined(__AVX2__))
    return __builtin_popcount(word);
#else
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    word = (word + (word >> 4)) & 0x0f0f0f0fu;
    return (int32_t)(word * 0x01010101u >> 24);
#endif
}
