/* number / 2^shift to the nearest whole number, halves to the even one. */
KERNEL uint64_t half_to_even(uint64_t number, int shift)
{
    uint64_t whole, rest, half;
    if (shift <= 0)
        return number;
    whole = number >> shift;
    rest = number - (whole << shift);
    half = (uint64_t)1 << (shift - 1);
    return whole + (rest > half || (rest == half && (whole & 1u)));
}
