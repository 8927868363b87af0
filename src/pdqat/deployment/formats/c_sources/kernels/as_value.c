KERNEL float as_value(int32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
