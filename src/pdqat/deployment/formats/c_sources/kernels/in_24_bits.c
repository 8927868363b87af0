/* The nearest number with 24 significant bits, halves to the even one: what float32 holds of a number below 2^56. */
KERNEL uint64_t in_24_bits(uint64_t number)
{
#ifdef __GNUC__
    int shift = 40 - __builtin_clzll(number | 1u << 23);
#else
    static const int steps[6] = {16, 8, 4, 2, 1, 1};
    int shift = 0;
    for (int step = 0; step < 6; step++)
        if (number >> (23 + shift + steps[step]) != 0)
            shift += steps[step];
#endif
    return half_to_even(number, shift) << shift;
}
