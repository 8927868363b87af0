KERNEL int32_t as_bits(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
