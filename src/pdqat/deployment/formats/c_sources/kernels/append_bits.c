/* Puts `count` bits of the source, from bit `first` on, behind the first `at` bits of the target, whose others are
   0. */
KERNEL void append_bits(uint32_t *target, int at, const uint32_t *source, int first, int count)
{
    while (count > 0) {
        int taken = count < 32 ? count : 32, from = first % 32, to = at % 32;
        uint32_t word = source[first / 32] >> from;
        if (from + taken > 32)
            word |= source[first / 32 + 1] << (32 - from);
        if (taken < 32)
            word &= (1u << taken) - 1u;
        target[at / 32] |= word << to;
        if (to + taken > 32)
            target[at / 32 + 1] |= word >> (32 - to);
        first += taken;
        at += taken;
        count -= taken;
    }
}
