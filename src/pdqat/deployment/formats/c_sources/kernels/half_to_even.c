/* number / 2^shift to the nearest whole number, halves to the even one: what is added to twice the number falls short
   of 2^shift by one where the whole number is even. */
KERNEL uint64_t half_to_even(uint64_t number, int shift)
{
    uint64_t odd = number >> shift & 1u;
    return (2 * number + ((uint64_t)1 << shift) - 1u + odd) >> (shift + 1);
}
